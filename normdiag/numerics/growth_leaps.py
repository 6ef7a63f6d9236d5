"""Leaps of a stream's norm: single adds that change it by far more than those around them."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.float64]

LEAST = math.log(1.5)
"""A change of the log norm from which an add can be a leap."""
TIMES = 4.0
"""A leap is this many times as large as the changes around it, the largest of which may be
another leap."""
_OTHER_LEAP = 1.5
_AROUND = 3
_BEHIND = 4


def find_leaps(y: Numbers) -> list[int]:
    """Return the adds (1 .. n-1) at which the log norms y, (n,), leap, in order.

    An add is compared with the three on either side; one of the first three with the four behind
    it, since a stream may start anywhere.
    """
    changes = np.abs(np.diff(y))
    leaps = []
    for place, change in enumerate(changes):
        if change < LEAST:
            continue
        if place < _AROUND:
            behind = changes[place + 1 : place + 1 + _BEHIND]
            is_leap = len(behind) >= _AROUND and change >= TIMES * behind.max()
        else:
            first = place - _AROUND
            around = np.sort(np.delete(changes[first : place + _AROUND + 1], _AROUND))
            is_leap = change >= TIMES * around[:-1].max() and change >= _OTHER_LEAP * around[-1]
        if is_leap:
            leaps.append(place + 1)
    return leaps


def remove_factors(y: Numbers, leaps: list[int]) -> Numbers:
    """The log norms as if each leap had left the norm as it was: a factor on all that follow."""
    flat = y.copy()
    for add in leaps:
        flat[add:] -= y[add] - y[add - 1]
    return flat


def remove_summands(y: Numbers, leaps: list[int]) -> Numbers | None:
    """The log norms as if each leap were one large summand of the squared norm; None where that
    leaves nothing."""
    squares = np.exp(2 * (y - y[0]))
    rest = squares.copy()
    for add in leaps:
        rest[add:] -= squares[add] - squares[add - 1]
    return 0.5 * np.log(rest) if (rest > 0).all() else None
