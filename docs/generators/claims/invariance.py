"""What a norm does not see of the weights in front of it."""

from __future__ import annotations

import torch
from torch import Tensor

from docs.generators.claims.claim import Case, Criterion, Rows, claim
from docs.generators.claims.rank import normalize_tokens

LAMBDAS = (0.0001, 0.01, 0.1, 10, 100)
EPS, H = 1e-5, 64
_HOW = f"LayerNorm and RMSNorm (epsilon {EPS:g}) of W x, W of {H} x {H} normal numbers / sqrt({H})"


def differentiate_weight(case: Case, kind: str, times: float) -> tuple[Tensor, Tensor, float]:
    """Output, gradient of lambda W, and epsilon's share, in float64."""
    draws = case.draw_normal(2 * case.tokens + H, H).double()
    x, direction = draws[: case.tokens], draws[case.tokens : -H]
    weight = (times * draws[-H:] * H**-0.5).requires_grad_()
    product = x @ weight.T
    output = normalize_tokens(kind, product, EPS)
    (gradient,) = torch.autograd.grad((output * direction).sum(), weight)
    centred = product.detach()
    if kind == "layernorm":
        centred = centred - centred.mean(-1, keepdim=True)
    share = float((EPS / (centred.square().mean(-1) + EPS)).median())
    return output.detach(), gradient, share


@claim(
    "N(lambda W x) = N(W x), and the gradient of W goes as 1/lambda",
    source="Ba et al. 2016 (1607.06450); van Laarhoven 2017 (1706.05350); Zhang and Sennrich 2019",
    how=f"""{_HOW}, in float64: the largest change of the output over its rms; the gradient of a
    random projection of the output (plain autograd), its length times lambda over that at lambda =
    1; epsilon's share of the variance (mean square), median over tokens.""",
    head=[
        "norm",
        "lambda",
        "change of the output",
        "lambda x gradient, over that at 1",
        "eps share",
    ],
    criterion=Criterion(
        "the output changes by less than 2 % and lambda times the gradient by less than 5 %: where "
        "epsilon's share is below 1e-2 (with the condition), in all rows (without)",
        lambda rows: all(_is_free(row) for row in rows if row[4] < 0.01),
        "the variance of lambda W x stays far above epsilon",
        lambda rows: all(_is_free(row) for row in rows),
    ),
    conclusion="""Over several decades of lambda the output does not move and the gradient is
    1/lambda times as long, for RMSNorm as for LayerNorm: the effective learning rate goes as
    1/lambda^2. Where lambda^2 Var(W x) comes near epsilon, both end.""",
)
def scale_free_weight(case: Case) -> Rows:
    rows = []
    for kind in ("layernorm", "rmsnorm"):
        plain, unit, _ = differentiate_weight(case, kind, 1.0)
        for times in LAMBDAS:
            output, gradient, share = differentiate_weight(case, kind, times)
            change = float((output - plain).abs().max() / plain.square().mean().sqrt())
            ratio = float(times * gradient.norm() / unit.norm())
            rows.append([kind, times, change, ratio, share])
    return rows


def _is_free(row: list[float]) -> bool:
    return row[2] < 0.02 and abs(row[3] - 1) < 0.05


@claim(
    "The scale of a norm's output is set by its gain and not by the weights before it",
    source="Salimans and Kingma 2016 (1602.07868), of weight norm; Ba et al. 2016 (1607.06450)",
    how=f"""{_HOW}, times a gain: the rms of the output; epsilon's share of the
    variance (mean square), median over tokens.""",
    head=["norm", "weights times", "gain", "rms of the output", "eps share"],
    criterion=Criterion(
        "the rms over the gain is within 1 % of 1: where epsilon's share is below 1e-2 (with the "
        "condition), in all rows (without)",
        lambda rows: all(abs(row[3] / row[2] - 1) < 0.01 for row in rows if row[4] < 1e-2),
        "the variance before the norm stays far above epsilon",
        lambda rows: all(abs(row[3] / row[2] - 1) < 0.01 for row in rows),
    ),
    conclusion="""Weights a hundred times as large leave the output as large as it was; a gain three
    times as large makes it three times as large. Weights so small that epsilon counts do set the
    scale.""",
)
def output_scale(case: Case) -> Rows:
    rows = []
    for kind in ("layernorm", "rmsnorm"):
        for times, gain in ((0.001, 1), (1, 1), (100, 1), (100, 3)):
            output, _, share = differentiate_weight(case, kind, times)
            size = float((gain * output).square().mean().sqrt())
            rows.append([kind, times, gain, size, share])
    return rows


CLAIMS = (scale_free_weight, output_scale)
