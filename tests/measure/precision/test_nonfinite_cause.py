"""The cause of a value that is not finite follows from the operands at its elements."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

import normdiag
from normdiag.evidence.nonfinite import FirstNonFinite

X = torch.tensor([[[4.0, 2.0, 1.0, 3.0], [0.0, 0.0, 0.0, 0.0], [-1.0, 2.0, 300.0, 5.0]]])


class Apply(nn.Module):
    """y = LayerNorm(function(w x)) with w = 1: a value of a model, not of its mask."""

    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.function, self.ln = function, nn.LayerNorm(4)
        self.weight = nn.Parameter(torch.ones(4))

    def forward(self, x):
        return self.ln(self.function(x * self.weight).to(self.ln.weight.dtype))


def find_origin(function: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor = X):
    model = Apply(function).to(x.dtype)
    origin = normdiag.inspect(model, inputs=x, measure=()).measurements.first_nonfinite
    assert isinstance(origin, FirstNonFinite)
    return origin


HALF = X.half()


@pytest.mark.parametrize(
    ("function", "kind", "elements"),
    [
        (lambda x: x / x.abs().amax(-1, keepdim=True), "zero-by-zero", 4),
        (lambda x: 448.0 / x.abs().amax(-1, keepdim=True) + x, "division-by-zero", 1),
        (lambda x: (x + 1) / x, "division-by-zero", 4),
        (lambda x: torch.rsqrt(x.square().mean(-1, keepdim=True)) + x, "division-by-zero-root", 1),
        (lambda x: x.abs() ** -0.5, "division-by-zero", 4),
        (lambda x: (x + 0.5).sqrt(), "negative-root", 1),
        (lambda x: (x + 0.5).log(), "negative-logarithm", 1),
        (lambda x: x.abs().log(), "logarithm-of-zero", 4),
        (lambda x: (x * 0) * -float("inf"), "zero-times-infinity", 12),
        (lambda x: x.exp(), "overflow", 1),
        (lambda x: x.masked_fill(x == 0, -float("inf")).softmax(-1), "masked-row", 4),
    ],
)
def test_the_elements_decide(function, kind: str, elements: int) -> None:
    cause = find_origin(function).cause
    assert cause is not None
    assert (cause.kind, cause.elements) == (kind, elements)


@pytest.mark.parametrize(
    ("function", "exact", "elements"),
    [
        (lambda x: x @ x.transpose(-1, -2) @ torch.ones(3, 4, dtype=x.dtype), 90030.0, 1),
        (lambda x: x * 300, 90000.0, 1),
        (lambda x: x.square(), 90000.0, 1),
        (lambda x: torch.add(x, x, alpha=299), 90000.0, 1),
        (lambda x: (x.float() * 400).half(), 120000.0, 1),
    ],
)
def test_a_float16_overflow_gives_the_exact_result(function, exact: float, elements: int) -> None:
    """(300^2 + 5^2 + 2^2 + 1 = 90030 is the product of row 2 with itself.)"""
    origin = find_origin(function, HALF)
    assert origin.cause is not None
    assert (origin.cause.kind, origin.cause.elements) == ("overflow", elements)
    assert origin.exact_max == pytest.approx(exact, rel=1e-12)
    assert origin.dtype == "float16"


def test_a_stored_infinity_needs_no_other_cause() -> None:
    model = nn.Sequential(nn.LayerNorm(4), nn.Linear(4, 4), nn.LayerNorm(4))
    with torch.no_grad():
        model[1].bias[2] = float("inf")
    origin = normdiag.inspect(model, inputs=X, measure=()).measurements.first_nonfinite
    assert origin is not None and origin.cause is None
    assert [operand.nonfinite for operand in origin.operands if operand.nonfinite] == [1]
