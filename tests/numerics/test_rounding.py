"""Rounding against torch's own casts and sums, every number of each format at least once."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from normdiag.evidence.number_formats import LOW_PRECISION_FORMATS as FORMATS
from normdiag.evidence.number_formats import NumberFormat
from normdiag.numerics.rounding import count_absorbed, round_to_format, unit_in_last_place

EACH = pytest.mark.parametrize("number_format", FORMATS, ids=lambda f: f.name)


def dtype_of(number_format: NumberFormat) -> torch.dtype:
    return getattr(torch, number_format.name)


def all_numbers(number_format: NumberFormat) -> torch.Tensor:
    """Every finite number of the format, sorted, zero once, in float64."""
    dtype = dtype_of(number_format)
    bits = 8 * dtype.itemsize
    codes = torch.arange(2**bits) - 2 ** (bits - 1)
    raw = codes.to(torch.int16 if bits == 16 else torch.int8).view(dtype).double()
    return torch.unique(raw[raw.isfinite()])


@EACH
def test_its_ends_are_those_of_all_its_numbers(number_format: NumberFormat) -> None:
    every = all_numbers(number_format)
    info = torch.finfo(dtype_of(number_format))
    assert number_format.largest == every.max() == info.max
    assert number_format.smallest_subnormal == every[every > 0].min()


@EACH
def test_an_ulp_is_the_distance_to_the_next_number(number_format: NumberFormat) -> None:
    every = all_numbers(number_format)
    upwards = every[every >= 0]
    torch.testing.assert_close(
        unit_in_last_place(upwards[:-1], number_format), upwards.diff(), rtol=0, atol=0
    )
    torch.testing.assert_close(
        unit_in_last_place(-upwards[:-1], number_format), upwards.diff(), rtol=0, atol=0
    )


@EACH
def test_it_rounds_as_torch_casts(number_format: NumberFormat) -> None:
    """Every number, every middle between two of them, and both float32 neighbours of the middle."""
    every = all_numbers(number_format)
    middles = ((every[1:] + every[:-1]) / 2).float()
    at = torch.cat([every.float(), *float32_neighbours(middles)])
    expected = at.to(dtype_of(number_format)).double()
    torch.testing.assert_close(round_to_format(at, number_format), expected, rtol=0, atol=0)


@EACH
def test_beyond_its_largest_number(number_format: NumberFormat) -> None:
    at = torch.cat([*float32_neighbours(overflowing_values(number_format))])
    found = round_to_format(at, number_format)
    if number_format.has_infinity:
        expected = at.to(dtype_of(number_format)).double()
        torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)
    else:  # torch saturates since 2.13 and gave NaN before
        assert torch.equal(found.isfinite(), at.abs() <= 464)  # 448 has the even fraction


def float32_neighbours(x: torch.Tensor) -> Iterator[torch.Tensor]:
    """x, and the float32 numbers next to it; float32's own subnormal numbers left out."""
    x = x[(x == 0) | (x.abs() > 1e-37)]
    yield x
    for end in (-np.inf, np.inf):
        yield torch.from_numpy(np.nextafter(x.numpy(), np.float32(end)))


def overflowing_values(number_format: NumberFormat) -> torch.Tensor:
    largest = number_format.largest
    edge = largest + float(unit_in_last_place(torch.tensor(largest), number_format)) / 2
    return torch.tensor([edge, -edge, 2 * largest, float("inf"), float("-inf"), float("nan")])


@pytest.mark.parametrize("number_format", FORMATS[2:], ids=lambda f: f.name)
def test_every_sum_of_two_numbers_of_eight_bits(number_format: NumberFormat) -> None:
    every = all_numbers(number_format)
    x, u = (t.flatten() for t in torch.meshgrid(every, every, indexing="ij"))
    is_within = (x + u).abs() <= number_format.largest  # beyond, torch saturates or does not
    x, u = x[is_within], u[is_within]
    cast = (x + u).float().to(dtype_of(number_format)).double()
    lost = (cast == x) & (u != 0)
    assert count_absorbed(x, u, number_format) == (int(lost.sum()), int((u != 0).sum()))
    assert 0 < int(lost.sum()) < u.numel()


@pytest.mark.parametrize("number_format", FORMATS[:2], ids=lambda f: f.name)
def test_half_an_ulp_of_every_number_of_sixteen_bits(number_format: NumberFormat) -> None:
    """x + u = x, by torch's own addition, for u from a quarter of an ulp to one."""
    dtype = dtype_of(number_format)
    every = all_numbers(number_format)[1:-1]
    for part in (0.25, 0.5, -0.5, 0.50390625, -0.25, -0.2578125, 1.0):
        u = (part * unit_in_last_place(every, number_format)).to(dtype)
        x = every.to(dtype)
        lost = (x + u == x) & (u != 0)
        assert count_absorbed(x, u, number_format) == (int(lost.sum()), int((u != 0).sum()))


@EACH
@settings(deadline=None, max_examples=100)
@given(
    x=st.floats(-300, 300, width=32, allow_subnormal=False),
    share=st.floats(-2, 2, width=32, allow_subnormal=False),
)
def test_absorbed_as_torch_adds(number_format: NumberFormat, x: float, share: float) -> None:
    """Both operands cast first, as they are in a model of that format."""
    dtype = dtype_of(number_format)
    skip = torch.tensor([x]).to(dtype).float()
    branch = torch.tensor([x]) * share * 2.0**-number_format.fraction_bits
    total = (skip + branch.to(dtype).float()).to(dtype).float()
    counted = skip.isfinite() & (branch != 0)
    expected = (int(((total == skip) & counted).sum()), int(counted.sum()))
    assert count_absorbed(torch.tensor([x]), branch, number_format) == expected


@EACH
def test_what_overflows_itself_is_not_counted(number_format: NumberFormat) -> None:
    x = torch.tensor([4 * number_format.largest, 1.0, 1.0], dtype=torch.float64)
    u = torch.tensor([1.0, 0.0, number_format.smallest_subnormal / 4], dtype=torch.float64)
    assert count_absorbed(x, u, number_format) == (1, 1)
