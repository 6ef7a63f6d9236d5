"""What a norm on the stream does to its size, and to the gradient."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from torch import nn

from docs.generators.claims.claim import Outcome, claim, measure_model, plain_verdict
from normdiag.evidence.gradients import Gradients
from sample_models import post_norm, theory

WIDTH, SHAPE, SEEDS, DEEP = 192, (4, 16), 2, 64
DEPTHS = (6, 12, 24, 48)
_STACK = f"the stack of `sample_models/theory.py`, width {WIDTH}"
_LOSS = "The loss is normdiag's for a head of 1,000 classes"


def format_range(values: list[float]) -> str:
    ends = f"{min(values):.3g}", f"{max(values):.3g}"
    return ends[0] if ends[0] == ends[1] else " to ".join(ends)


@claim(
    "Post-norm resets the scale of the stream at every block",
    source="Ba et al. 2016 (1607.06450); Xiong et al. 2020 (2002.04745)",
    how=f"""`sample_models/post_norm.py` (64 blocks, width 64, seed 0) and {_STACK}, 48 layers, seed
    0, in post-norm and, for comparison, pre-norm. `rms.skip` of all adds but the first.""",
)
def scale_is_reset() -> Outcome:
    rows, sizes = [], []
    for name, built in (
        ("post-norm, MLPs", post_norm.build()),
        ("post-norm, attention and ReLU", theory.build("post", WIDTH, 48, 0, SHAPE)),
        ("pre-norm, attention and ReLU", theory.build("pre", WIDTH, 48, 0, SHAPE)),
    ):
        adds = list(measure_model(built, "stream").stream.values())[1:]
        sizes.append([add.rms.skip for add in adds])
        rows.append([name, len(adds) + 1, format_range(sizes[-1])])
    post = sizes[0] + sizes[1]
    return Outcome(
        plain_verdict(max(abs(size - 1) for size in post) < 1e-3),
        ["model", "adds", "rms of what a block receives"],
        rows,
        "Every block of a post-norm stack receives a stream of rms 1, less epsilon's share.",
    )


@claim(
    "The variance at a post-norm's input grows linearly with the layer",
    source="folklore, taken over from pre-norm",
    how=f"""`sample_models/post_norm.py` and {_STACK}, 48 layers, seed 0, in post-norm and pre-norm.
    `input_var` of the norms in front of or behind the second add of a layer: the medians over
    tokens, and the slope of their straight line against the layer.""",
)
def variance_at_a_post_norm() -> Outcome:
    rows = []
    for name, built in (
        ("post-norm, MLPs", post_norm.build()),
        ("post-norm, attention and ReLU", theory.build("post", WIDTH, 48, 0, SHAPE)),
        ("pre-norm, attention and ReLU", theory.build("pre", WIDTH, 48, 0, SHAPE)),
    ):
        norms = measure_model(built, "norms").norms
        variances = [norm.input_var.median for norm in norms.values()]
        variances = variances if len(variances) == DEEP else variances[1:96:2]
        slope = np.polyfit(range(len(variances)), variances, 1)[0]
        rows.append(
            [
                name,
                len(variances),
                variances[0],
                variances[len(variances) // 2],
                variances[-1],
                slope,
            ]
        )
    return Outcome(
        plain_verdict(all(row[-1] > 0.1 for row in rows[:2])),
        ["model", "layers", "first", "middle", "last", "slope per layer"],
        rows,
        "It is 1 + q at every depth, with q what the branch writes: 3/2 behind the network of the "
        "second model (Xiong et al., lemma 2). The scale cannot be reset and grow; what grows "
        "linearly is the input of a pre-norm.",
    )


@cache
def gradient_norms(placement: str, layers: int, seed: int, last_norm: bool = True) -> Gradients:
    model, inputs = theory.build(placement, WIDTH, layers, seed, SHAPE)
    if not last_norm:
        model.norm = model.layers[-1].stream = nn.Identity()
    gradients = measure_model((model, inputs), "gradients").gradients
    assert gradients is not None
    return gradients


@claim(
    "In a post-norm stack of 64 layers the gradient vanishes on its way down",
    source="Xiong et al. 2020, appendix F, (2/3)^((L-l)/2); Liu et al. 2020 (2004.08249)",
    how=f"""{_STACK}, {DEEP} layers, seeds 0 to {SEEDS - 1}, with and without the norm that the head
    reads through (in post-norm, both norms of the last layer); `sample_models/post_norm.py`.
    `gradients.ratio_last_first` and the rate per layer of `gradients.trends`, as ranges over the
    seeds. {_LOSS}.""",
)
def deep_post_norm() -> Outcome:
    tried = {
        (f"{placement}-norm", "with" if last_norm else "without"): [
            gradient_norms(placement, DEEP, seed, last_norm) for seed in range(SEEDS)
        ]
        for placement in ("pre", "post")
        for last_norm in (True, False)
    }
    tried["post-norm, MLPs", "with"] = [measure_model(post_norm.build(), "gradients").gradients]
    rows, post = [], []
    for names, runs in tried.items():
        rates = [g.trends["layers"].rate for g in runs]
        rows.append(
            [
                *names,
                format_range([g.ratio_last_first or math.nan for g in runs]),
                format_range(rates),
            ]
        )
        post += rates if names[0] != "pre-norm" else []
    return Outcome(
        plain_verdict(min(post) > 1.05),
        ["placement", "last norm", "gradient of the last add / first add", "factor per layer"],
        rows,
        f"It is flat: over {DEEP} layers first and last add differ by less than a factor of three. "
        "(2/3)^(1/2) per layer would be 1.22 in the last column, 3e5 in all. The estimate leaves "
        "out what the branch gives back: the norm behind the network divides by sqrt(3/2), and I "
        "+ J_F multiplies by as much. It is in pre-norm that early layers get more, since what "
        "reaches the last is divided by the size of the stream; with or without the last norm.",
    )


@claim(
    "The gradient of the last layer's weights goes as L^(-1/2) in pre-norm, as L^0 in post-norm",
    source="Xiong et al. 2020, theorem 1",
    how=f"""{_STACK}, L = {", ".join(map(str, DEPTHS))}, means over seeds 0 to {SEEDS - 1}. The norm
    of the last layer's gradient: `gradients.global_norm` times the root of its share in
    `gradients.groups`. {_LOSS}.""",
)
def slopes_in_depth() -> Outcome:
    rows = []
    for placement in ("pre", "post"):
        norms = []
        for layers in DEPTHS:
            runs = [gradient_norms(placement, layers, seed) for seed in range(SEEDS)]
            shares = [g.global_norm * g.groups[f"layers.{layers - 1}"] ** 0.5 for g in runs]
            norms.append(float(np.mean(shares)))
        slope = np.polyfit(np.log(DEPTHS), np.log(norms), 1)[0]
        rows.append([f"{placement}-norm", *norms, slope])
    pre, post = (row[-1] for row in rows)
    return Outcome(
        plain_verdict(abs(pre + 0.5) < 0.1 and abs(post) < 0.1),
        ["placement", *(f"L = {depth}" for depth in DEPTHS), "slope"],
        rows,
        "The exact statement is that it goes as one over the size of the stream, 1/sqrt(q_L): "
        "where q_L grows a little faster than L, the slope is a little below -1/2.",
    )


CLAIMS = (scale_is_reset, variance_at_a_post_norm, deep_post_norm, slopes_in_depth)
