"""An epsilon is told as it was written, not as float32 rounds it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from normdiag.structure.decimal_literals import shortest_decimal


@given(st.integers(1, 9999), st.integers(-30, 30))
def test_a_short_decimal_comes_back(mantissa: int, exponent: int) -> None:
    decimal = float(f"{mantissa}e{exponent}")
    assert shortest_decimal(float(np.float32(decimal))) == decimal
    assert shortest_decimal(decimal) == decimal


@pytest.mark.parametrize("value", [2.0**-17, float(np.finfo(np.float32).eps), 1 / 3, 0.0, 1e300])
def test_other_numbers_are_left_alone(value: float) -> None:
    assert shortest_decimal(value) == value


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_what_is_told_rounds_to_what_was_seen(value: float) -> None:
    assert np.float32(shortest_decimal(value)) == np.float32(value)
