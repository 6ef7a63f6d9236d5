"""How large gradients are, by depth and placement, and who gets the clipped direction."""

from __future__ import annotations

from functools import cache

from docs.generators.claims.claim import Case, Criterion, Rows, claim
from docs.generators.claims.stacks import (
    LOSS,
    Backward,
    build_theory,
    differentiate_stack,
    fit_slope,
)

DEPTHS = (6, 12, 24, 48)
_DEPTH_HEAD = [f"L = {depth}" for depth in DEPTHS]
_STACK = "the stack of `sample_models/theory.py`, width 64"
_HOW = f"{LOSS}; plain autograd."


@cache
def run_backward(case: Case, placement: str, layers: int, last_norm: bool = True) -> Backward:
    """One backward pass through the stack of theory."""
    return differentiate_stack(build_theory(case, placement, layers, last_norm=last_norm))


@claim(
    "The gradient of the last layer's weights goes as L^(-1/2) in pre-norm, as L^0 in post-norm",
    source="Xiong et al. 2020, theorem 1",
    how=f"""{_STACK}, L = {", ".join(map(str, DEPTHS))}: the norm of the gradient of the last
    layer's weights and of all layers', and their slopes in L, log to log. {_HOW}""",
    head=["placement", "gradient of", *_DEPTH_HEAD, "slope"],
    criterion=Criterion(
        "the slope of the last layer's gradient is within 0.25 of -1/2 in pre-norm, and of 0 "
        "in post-norm",
        lambda rows: abs(rows[0][-1] + 0.5) < 0.25 and abs(rows[2][-1]) < 0.25,
    ),
    conclusion="""The exact statement is that it goes as one over the size of the stream,
    1/sqrt(q_L). It is one of the last layer: the gradient of all layers together hardly changes
    with depth in pre-norm, and grows in post-norm, as there are more layers with as large a
    gradient each.""",
)
def slopes_in_depth(case: Case) -> Rows:
    rows = []
    for placement in ("pre", "post"):
        runs = [run_backward(case, placement, depth) for depth in DEPTHS]
        for name, norms in (
            ("the last layer", [run.layers[-1] for run in runs]),
            ("all layers", [run.blocks for run in runs]),
        ):
            slope = fit_slope([float(depth) for depth in DEPTHS], norms)
            rows.append([f"{placement}-norm", name, *norms, slope])
    return rows


@claim(
    "Gradients of a pre-norm stack are well scaled at any depth",
    source="Xiong et al. 2020, section 3.3",
    how=f"""{_STACK}, L = {", ".join(map(str, DEPTHS))}, in pre-norm with its final norm and
    without, and in post-norm: the norm of the gradient of all layers' weights, its largest over
    its smallest value of the four depths, and at L = {DEPTHS[-1]} the largest layer's gradient over
    the smallest's. {_HOW}""",
    head=["model", *_DEPTH_HEAD, "largest / smallest", "layer: largest / smallest"],
    criterion=Criterion(
        "over the depths the gradient of all layers changes by less than a factor of 2.5: with the "
        "final norm (with the condition), without it (without)",
        lambda rows: rows[0][-2] < 2.5,
        "a final norm stands before the head",
        lambda rows: rows[1][-2] < 2.5,
    ),
    conclusion="""Behind a final norm the gradient is divided by the size of the stream, and eight
    times the layers have hardly more gradient together. It is not alike over the layers: early
    ones have more, as the last column shows, by the size of the stream that they read. Without a
    final norm the loss sees the grown stream itself.""",
)
def pre_norm_gradients(case: Case) -> Rows:
    rows = []
    for name, placement, last_norm in (
        ("pre-norm, final norm", "pre", True),
        ("pre-norm, no final norm", "pre", False),
        ("post-norm", "post", True),
    ):
        runs = [run_backward(case, placement, depth, last_norm) for depth in DEPTHS]
        norms, layers = [run.blocks for run in runs], runs[-1].layers
        rows.append([name, *norms, max(norms) / min(norms), max(layers) / min(layers)])
    return rows


@claim(
    "In pre-norm and Peri-LN clipping by the global norm leaves the direction to the early layers",
    source="folklore; Pascanu et al. 2013 (1211.5063), clipping by the norm",
    how=f"""{_STACK}, 24 layers, in post-norm, pre-norm and Peri-LN: the shares of the squared norm
    of the gradient of all parameters, which clipping leaves as they are, that the first and the
    last six layers and the head have, and the factor at a maximum of 1. {_HOW}""",
    head=["placement", "first quarter", "last quarter", "head", "factor at 1"],
    criterion=Criterion(
        "the first quarter of the layers has more than twice the share of the last one in pre-norm "
        "and Peri-LN",
        lambda rows: all(row[1] > 2 * row[2] for row in rows[1:]),
    ),
    conclusion="""Clipping is one factor on all gradients: whoever has the largest share decides the
    step. In pre-norm and Peri-LN that is the early layers, which read a small stream; the head, one
    matrix, has a tenth of the squared norm or more. In post-norm it is neither end for all weights:
    the seeds disagree.""",
)
def clipped_direction(case: Case) -> Rows:
    rows = []
    for placement in ("post", "pre", "peri"):
        run = run_backward(case, placement, 24)
        total = run.blocks**2 + run.head**2
        first, last = (sum(g**2 for g in six) / total for six in (run.layers[:6], run.layers[-6:]))
        clipped = min(1.0, total**-0.5)
        rows.append([f"{placement}-norm", first, last, run.head**2 / total, clipped])
    return rows


CLAIMS = (slopes_in_depth, pre_norm_gradients, clipped_direction)
