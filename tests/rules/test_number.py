"""Numbers in messages: four digits, readable, and never another number."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from normdiag.rules.number import count, number


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (1.0, "1"),
        (0.5, "0.5"),
        (2087.711, "2088"),
        (65504.0, "65504"),
        (0.9987696, "0.9988"),
        (1.0454, "1.045"),
        (-3.25, "-3.25"),
        (100.0, "100"),
        (1e-5, "1e-05"),
        (1.231904e-15, "1.232e-15"),
        (3.4e38, "3.4e+38"),
        (math.inf, "inf"),
        (math.nan, "nan"),
    ],
)
def test_examples(value: float, text: str) -> None:
    assert number(value) == text


@given(st.floats(-1e300, 1e300))
def test_it_reads_back_to_four_digits(value: float) -> None:
    assert float(number(value)) == pytest.approx(value, rel=6e-4)


@pytest.mark.parametrize(("n", "text"), [(0, "0 norms"), (1, "1 norm"), (2, "2 norms")])
def test_counts(n: int, text: str) -> None:
    assert count(n, "norm") == text
