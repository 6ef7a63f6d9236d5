"""Numbers are short, true to their digits, and never raise."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from normdiag.number_text import (
    format_count,
    format_factor,
    format_number,
    format_percent,
    format_signed,
    format_value,
)
from normdiag.render.sections.subject import format_memory

INF, NAN = math.inf, math.nan


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "-"),
        (0.0, "0"),
        (-0.0, "0"),
        (1.0, "1.000"),
        (0.0123, "0.0123"),
        (-0.5, "-0.500"),
        (9.999, "10.0"),
        (99.96, "100"),
        (812.5, "812"),
        (31_200.0, "31,200"),
        (99_999.9, "1.00e5"),
        (1.5e-7, "1.50e-7"),
        (-6.1e12, "-6.10e12"),
        (5e-324, "4.94e-324"),
        (INF, "inf"),
        (-INF, "-inf"),
        (NAN, "nan"),
    ],
)
def test_numbers_have_three_significant_digits(value, shown):
    assert format_number(value) == shown


@given(st.floats(-1e300, 1e300).filter(lambda value: abs(value) > 1e-300), st.integers(1, 5))
def test_a_number_reads_back_to_its_digits(value, digits):
    back = float(format_number(value, digits).replace(",", ""))
    assert back == pytest.approx(value, rel=0.51 * 10 ** (1 - digits), abs=0)


@given(st.floats(-1e99, 1e99).filter(lambda value: value == 0 or abs(value) > 1e-99))
def test_a_number_fits_its_column(value):
    assert len(format_number(value)) <= 9


def test_other_spellings():
    assert [format_signed(value) for value in (0.1234, -1.0, 0.0, None, NAN)] == [
        "+0.12",
        "-1.00",
        "+0.00",
        "-",
        "nan",
    ]
    assert [format_percent(value) for value in (1.0, 0.0751, 3.3e-12, 0.0, None, NAN)] == [
        "100%",
        "7.5%",
        "<0.001%",
        "0%",
        "-",
        "nan",
    ]
    assert [format_factor(value) for value in (31.234, INF, NAN)] == ["31.2×", "inf", "nan"]
    assert [format_value(value) for value in (2.0, 1234.0, 0.25, INF, NAN)] == [
        "2",
        "1,234",
        "0.250",
        "inf",
        "nan",
    ]
    assert [format_count(many, "norm") for many in (0, 1, 1200)] == [
        "0 norms",
        "1 norm",
        "1,200 norms",
    ]


@given(st.floats(0, 1))
def test_a_share_fits_its_column(share):
    assert len(format_percent(share)) <= 7 or share < 1e-98


def test_memory_is_known_for_dtypes_that_are():
    assert format_memory(134_515_008, "float32") == "538 MB"
    assert format_memory(7_000_000_000, "torch.bfloat16") == "14.0 GB"
    assert format_memory(10, "int8") == "10.0 B"
    assert format_memory(10, "ternary") is None
