"""What a norm on the stream does to its size, and to the gradient."""

from __future__ import annotations

import numpy as np
from torch import Tensor, nn

from docs.generators.claims.claim import Case, Criterion, Rows, Trial, claim, measure_model
from docs.generators.claims.stacks import LOSS, build_theory, differentiate_stack, measure_adds
from sample_models.post_norm import PostNorm

LAYERS, DEEP = 24, 64
_STACK = "the stack of `sample_models/theory.py`, width 64"
_LONG = Trial(lengths=(16, 128, 512))


def build_three(case: Case) -> dict[str, tuple[nn.Module, Tensor]]:
    """Two post-norm stacks and a pre-norm one."""
    return {
        "post-norm, MLPs": case.build(lambda: PostNorm(LAYERS)),
        "post-norm, attention and ReLU": build_theory(case, "post", LAYERS),
        "pre-norm, attention and ReLU": build_theory(case, "pre", LAYERS),
    }


@claim(
    "Post-norm resets the scale of the stream at every block",
    source="Ba et al. 2016 (1607.06450); Xiong et al. 2020 (2002.04745)",
    how=f"""`sample_models/post_norm.py` (width 64) and {_STACK}, in post-norm and, for comparison,
    pre-norm; {LAYERS} layers. `rms.skip` of all adds but the first.""",
    head=["model", "smallest rms that a block receives", "largest"],
    criterion=Criterion(
        "every block of the post-norm stacks, but the first, receives a stream whose rms is within "
        "1e-3 of 1",
        lambda rows: all(abs(size - 1) < 1e-3 for row in rows[:2] for size in row[1:]),
    ),
    conclusion="""Every block of a post-norm stack but the first receives a stream of rms 1, less
    epsilon's share. What a block of a pre-norm stack receives grows.""",
)
def scale_is_reset(case: Case) -> Rows:
    rows = []
    for name, built in build_three(case).items():
        sizes = [add.rms.skip for add in measure_adds(built)[1:] if add.rms]
        rows.append([name, min(sizes), max(sizes)])
    return rows


@claim(
    "The variance at a post-norm's input grows linearly with the layer",
    source="folklore, from pre-norm",
    how=f"""`sample_models/post_norm.py` (width 64) and {_STACK}, in post-norm and pre-norm;
    {LAYERS} layers. `input_var` of the norms in front of or behind the second add of a layer: the
    medians over tokens, and the slope of their straight line against the layer.""",
    head=["model", "first", "middle", "last", "slope per layer"],
    criterion=Criterion(
        "the slope exceeds 0.1 per layer in both post-norm stacks",
        lambda rows: all(row[-1] > 0.1 for row in rows[:2]),
    ),
    conclusion="""It is 1 + q, with q what the branch writes, at every depth: 3/2 behind the network
    of the second model (Xiong et al., lemma 2), a little less where one seed's weights write less.
    The scale cannot be reset and grow; what grows linearly is the input of a pre-norm.""",
)
def variance_at_a_post_norm(case: Case) -> Rows:
    rows = []
    for name, built in build_three(case).items():
        norms = measure_model(built, "norm-inputs").norms.values()
        variances = [norm.input_var.median for norm in norms]
        variances = variances if len(variances) == LAYERS else variances[1 : 2 * LAYERS : 2]
        slope = float(np.polyfit(range(LAYERS), variances, 1)[0])
        rows.append([name, variances[0], variances[LAYERS // 2], variances[-1], slope])
    return rows


_HEAD = [
    "placement",
    "last norm",
    "last add / first add",
    "factor per layer",
    "add where tokens are alike",
    "that add / first add",
]
_DEEP_HOW = f"""{_STACK}, {DEEP} layers ({2 * DEEP} adds), one sequence, with and without the norm
    that the head reads through (in post-norm, both norms of the last layer). ||dL/dy|| of every
    add, RMS over tokens, by plain autograd: the last over the first, and the exponential through
    the later half, per layer; the first add at which the mean cosine between tokens exceeds 0.99,
    and the gradient there over that at the first. {LOSS}."""


def deep_gradients(case: Case) -> Rows:
    """Of a pre-norm and of post-norm stacks."""
    rows = []
    for placement, last_norm in (("pre", True), ("post", True), ("post", False)):
        run = differentiate_stack(
            build_theory(case, placement, DEEP, last_norm=last_norm, sequences=1)
        )
        late = np.log(run.sums[DEEP:])
        rate = float(np.exp(2 * np.polyfit(range(DEEP), late, 1)[0]))
        alike = next((i for i, cosine in enumerate(run.cosines) if cosine > 0.99), None)
        rows.append(
            [
                f"{placement}-norm",
                "with" if last_norm else "without",
                run.sums[-1] / run.sums[0],
                rate,
                "none" if alike is None else alike,
                "-" if alike is None else run.sums[alike] / run.sums[0],
            ]
        )
    return rows


@claim(
    "In a post-norm stack of 64 layers the gradient vanishes on its way down, as (2/3)^((L-l)/2)",
    source="Xiong et al. 2020, appendix F; Liu et al. 2020 (2004.08249)",
    how=_DEEP_HOW,
    head=_HEAD,
    criterion=Criterion(
        "over the later half of a post-norm stack the gradient grows by more than 1.1 per layer, "
        "half of what (3/2)^(1/2) = 1.22 would be",
        lambda rows: all(row[3] > 1.1 for row in rows[1:]),
    ),
    conclusion="""The estimate leaves out what the branch gives back: the norm behind the network
    divides by sqrt(3/2), and I + J_F multiplies by as much. Over 64 layers it would be 4e5 in all.
    What the gradient does lose, it loses in the first few layers, where the tokens become alike:
    see the next statement. In pre-norm early layers get more, since what reaches the last is
    divided by the size of the stream.""",
    trial=_LONG,
)
def exponential_decay(case: Case) -> Rows:
    return deep_gradients(case)


@claim(
    "In a post-norm stack of 64 layers the gradient is the same at all depths",
    source="the same stack with what the branch gives back (tests/papers)",
    how=_DEEP_HOW,
    head=_HEAD,
    criterion=Criterion(
        "in both post-norm stacks the last add's gradient is less than 5 times and more than a "
        "fifth of the first add's",
        lambda rows: all(1 / 5 < row[2] < 5 for row in rows[1:]),
    ),
    conclusion="""Of few tokens it is flat within a small factor. Attention that averages over many
    tokens makes them alike within the first layers (cosine above 0.99), and what tells them apart
    gets no gradient: on its way down it falls there, the more the longer the sequence is. Between
    that add and the last it stays nearly as it is.""",
    trial=_LONG,
)
def flat_post_norm(case: Case) -> Rows:
    return deep_gradients(case)


CLAIMS = (scale_is_reset, variance_at_a_post_norm, exponential_decay, flat_post_norm)
