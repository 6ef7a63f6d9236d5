"""Rounding tensors to a number format of 16 or 8 bits, computed in float64 on any device."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from normdiag.evidence.number_formats import NumberFormat


def unit_in_last_place(x: Tensor, number_format: NumberFormat) -> Tensor:
    """Return the distance from |x| to the next larger number of the format."""
    lowest = 1 - number_format.max_exponent
    exponent = torch.frexp(x.double()).exponent - 1
    exponent = torch.where(x == 0, lowest, exponent).clamp(min=lowest)
    one = torch.ones_like(x, dtype=torch.float64)
    return torch.ldexp(one, exponent - number_format.fraction_bits)


def round_to_format(x: Tensor, number_format: NumberFormat) -> Tensor:
    """Round `x` to the format, half to even, and return it as float64.

    Values beyond the largest finite one become infinity, or NaN in a format without infinity (a
    cast may saturate instead, which is the kernel's choice).
    """
    ulp = unit_in_last_place(x, number_format)
    nearest = torch.round(x.double() / ulp) * ulp
    beyond = math.inf if number_format.has_infinity else math.nan
    is_within = torch.isfinite(x) & (nearest.abs() <= number_format.largest)
    return torch.where(is_within, nearest, x.double() * beyond)


def count_absorbed(x: Tensor, u: Tensor, number_format: NumberFormat) -> tuple[int, int]:
    """Count the elements of an update u that x absorbs in the format: x + u = x.

    Returns:
        The absorbed elements and all elements counted: those where u is not 0 and x does not
        overflow.
    """
    skip = round_to_format(x, number_format)
    counted = (u != 0) & torch.isfinite(skip)
    total = round_to_format(skip + round_to_format(u, number_format), number_format)
    return int(((total == skip) & counted).sum()), int(counted.sum())
