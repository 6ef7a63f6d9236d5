from __future__ import annotations

import math

import pytest
import torch

from normdiag.numerics.finite_values import holds_finite_values


@pytest.mark.parametrize("bad", [math.inf, -math.inf, math.nan])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_one_value_is_enough(bad: float, dtype: torch.dtype) -> None:
    values = torch.linspace(-1, 1, 40, dtype=dtype).reshape(5, 8)
    assert holds_finite_values(values)
    values[3, 2] = bad
    assert not holds_finite_values(values)


def test_what_has_no_floating_values_is_finite() -> None:
    assert holds_finite_values(torch.arange(4))
    assert holds_finite_values(torch.empty(0, 3))
    assert holds_finite_values(torch.full((2,), math.nan, device="meta"))
