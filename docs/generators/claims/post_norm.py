"""What a norm on the stream does to its size, and to the gradient."""

from __future__ import annotations

from functools import cache

import numpy as np
from torch import Tensor, nn

from docs.generators.claims.claim import Case, Criterion, Rows, Trial, claim, measure_model
from docs.generators.claims.stacks import (
    LOSS,
    Backward,
    build_theory,
    differentiate_stack,
    measure_adds,
)
from sample_models.post_norm import PostNorm

LAYERS, DEEP, WIDE = 24, 64, 192
_STACK = "the stack of `sample_models/theory.py`, width 64"
_LONG = Trial(lengths=(4, 32, 512))


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


_DEEP_HOW = f"""the stack of `sample_models/theory.py`, width {WIDE}, {DEEP} layers ({2 * DEEP}
    adds), one sequence, with and without the norm that the head reads through (in post-norm, both
    norms of the last layer). ||dL/dy|| of an add, RMS over tokens, by plain autograd: of the last
    over the first, and of the middle one over the first."""
_DEEP = {
    "pre-norm": ("pre", True),
    "post-norm": ("post", True),
    "post-norm, head behind no norm": ("post", False),
}


@cache
def deep_gradients(case: Case) -> dict[str, Backward]:
    """Of a pre-norm and of post-norm stacks."""
    return {
        name: differentiate_stack(
            build_theory(case, placement, DEEP, last_norm=last_norm, sequences=1, width=WIDE)
        )
        for name, (placement, last_norm) in _DEEP.items()
    }


@claim(
    "In a post-norm stack of 64 layers the gradient vanishes on its way down, as (2/3)^((L-l)/2)",
    source="Xiong et al. 2020, appendix F; Liu et al. 2020 (2004.08249)",
    how=f"{_DEEP_HOW} {LOSS}.",
    head=["placement", "last add / first add", "middle add / first add"],
    criterion=Criterion(
        "in both post-norm stacks the last add's gradient is more than 4,000 times the first's, a "
        "hundredth of (3/2)^(64/2) = 4e5",
        lambda rows: all(row[1] > 4000 for row in rows[1:]),
    ),
    conclusion="""The estimate leaves out what the branch gives back: the norm behind the network
    divides by sqrt(3/2), and I + J_F multiplies by as much. What the gradient of many tokens does
    lose, it loses above the middle: see the next statement. In pre-norm early layers get more,
    since what reaches the last is divided by the size of the stream.""",
    trial=_LONG,
)
def exponential_decay(case: Case) -> Rows:
    return [
        [name, run.sums[-1] / run.sums[0], run.sums[DEEP] / run.sums[0]]
        for name, run in deep_gradients(case).items()
    ]


@claim(
    "In a post-norm stack of 64 layers the gradient is the same at all depths",
    source="the estimate of the statement before, with what the branch gives back",
    how=f"""{_DEEP_HOW} The same of its mean over the tokens (the common part), and of what is left
    (the other part), this over the last 8 layers, per layer. {LOSS}.""",
    head=[
        "placement",
        "last add / first add",
        "common part: last / middle",
        "other part: factor per layer, last 8",
        "common share at the last add",
    ],
    criterion=Criterion(
        "in both post-norm stacks the last add's gradient is less than ten times and more than "
        "a tenth of the first add's",
        lambda rows: all(0.1 < row[1] < 10 for row in rows[1:]),
    ),
    conclusion="""Of few tokens it is flat within an order of magnitude; of many it is not.
    Attention that averages makes the tokens alike within the first layers, and from then on writes
    the same to all: a gradient that differs between tokens comes back through the skip alone, which
    the norm behind attention divides by about sqrt(2), layer by layer. The part that all tokens
    have in common keeps its order of magnitude. Of n tokens with random targets it is about
    1/sqrt(n) of the whole (last column), so the fall grows with n and ends once that part alone is
    left.""",
    trial=_LONG,
)
def flat_post_norm(case: Case) -> Rows:
    rows = []
    for name, run in deep_gradients(case).items():
        sums, common = run.sums, run.common
        other = [max(a**2 - b**2, 0.0) ** 0.5 for a, b in zip(sums, common, strict=True)]
        fall = (other[-3] / other[-19]) ** (1 / 8)
        share = common[-1] / sums[-1]
        rows.append([name, sums[-1] / sums[0], common[-1] / common[DEEP], fall, share])
    return rows


CLAIMS = (scale_is_reset, variance_at_a_post_norm, exponential_decay, flat_post_norm)
