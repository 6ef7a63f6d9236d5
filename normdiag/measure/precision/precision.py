"""What each number format would do to what was seen, and what makes the stream fit into it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from normdiag.evidence.architecture import ResidualAdd, Stack
from normdiag.evidence.measurements import Measurements
from normdiag.evidence.precision import Format, Precision, Remedy
from normdiag.evidence.statistics import Worst
from normdiag.evidence.stream import AddMeasurement
from normdiag.measure.precision.logit_bounds import logit_bounds
from normdiag.measure.sites.assembly import Assembly
from normdiag.numerics.number_formats import FORMATS, NumberFormat

SPARE = 2.0
"""A remedy leaves room for values this many times as large: a probe does not see the largest."""
_NORM_FIRST = ("pre", "sandwich", "parallel-pre")
"""Placements whose branches read the stream through a norm, and write to it unnormalised."""


def precision(assembly: Assembly, measured: Measurements) -> Precision | None:
    """From the adds and norms that were measured; None where no add was."""
    if not measured.stream:
        return None
    peaks = assembly.peaks
    values = {name: largest_of(add) for name, add in measured.stream.items()}
    values |= {name: norm.max_abs for name, norm in measured.norms.items()}
    values |= peaks.worst()
    known = {name: value for name, value in values.items() if not math.isnan(value)}
    squares = {
        name: value
        for name, value in peaks.squares.items()
        if not math.isnan(value) and known.get(name) != math.inf
    }
    return Precision(
        formats={f.name: _format(f, assembly, (known, squares)) for f in FORMATS},
        max_abs=known,
        max_square=squares,
        squared_in={name: peaks.squared_in[name] for name in squares},
        logit_bounds=logit_bounds(peaks, assembly.sites.norms, assembly.learned),
    )


def largest_of(add: AddMeasurement) -> float:
    """The largest |value| of x, u and y; NaN where one is."""
    sides = (add.max_abs, add.skip_max_abs or 0.0, add.branch_max_abs or 0.0)
    return math.nan if any(map(math.isnan, sides)) else max(sides)


def _format(
    number_format: NumberFormat,
    assembly: Assembly,
    largest: tuple[Mapping[str, float], Mapping[str, float]],
) -> Format:
    computed_in = {name: add.extremes.dtype for name, add in assembly.add_streams.items()}
    values = _overflowing_here(number_format, largest[0], computed_in | assembly.peaks.computed_in)
    squares = _overflowing_here(number_format, largest[1], assembly.peaks.squared_in)
    norms = assembly.sites.architecture.norms
    site, headroom = _tightest(number_format.largest, values)
    square_site, square_headroom = _tightest(number_format.largest, squares)
    swallowed = {name: _swallowed(number_format, assembly, name) for name in assembly.add_streams}
    return Format(
        largest=number_format.largest,
        headroom=headroom,
        tightest=site,
        square_headroom=square_headroom,
        tightest_square=square_site,
        swallowed={name: share for name, share in swallowed.items() if share is not None},
        lost_epsilons=tuple(n.id for n in norms if _is_lost(n.eps, number_format)),
        lost_gains=tuple(
            n.id for n in norms if n.gain is not None and n.gain.max_abs > number_format.largest
        ),
        remedies=_remedies(number_format.largest, assembly, values),
    )


def _overflowing_here(
    number_format: NumberFormat, values: Mapping[str, float], computed_in: Mapping[str, str | None]
) -> dict[str, float]:
    """Without the infinities of another format: of this one they tell nothing."""
    name = number_format.name
    return {k: v for k, v in values.items() if v != math.inf or computed_in.get(k) == name}


def _tightest(limit: float, values: Mapping[str, float]) -> tuple[str | None, float | None]:
    name = max(values, key=lambda name: values[name], default=None)
    if name is None or values[name] == 0:
        return None, None
    return name, limit / values[name]


def _is_lost(eps: float | None, number_format: NumberFormat) -> bool:
    return eps is not None and 0 < eps <= number_format.smallest / 2


def _swallowed(number_format: NumberFormat, assembly: Assembly, name: str) -> float | None:
    """From all tokens where the run itself added in this format, else from the sampled ones."""
    seen = assembly.add_streams[name].extremes
    if seen.dtype == number_format.name and seen.written:
        return seen.lost / seen.written
    counts = [number_format.swallowed(r.skip_rows, r.branch_rows) for r in assembly.adds[name]]
    lost, written = (sum(column) for column in zip(*counts, strict=True))
    return lost / written if written else None


def _remedies(limit: float, assembly: Assembly, values: Mapping[str, float]) -> dict[str, Remedy]:
    built = assembly.sites.architecture
    found = {}
    for stack in built.stacks:
        adds = [a for a in built.residual_adds if a.stack == stack.id and a.id in values]
        over = [a for a in adds if values[a.id] > limit]
        if not over:
            continue
        factor = None
        if _is_scale_free(stack, adds):
            factor = fitting(max(values[a.id] for a in over), limit)
        found[stack.id] = Remedy(
            layer=over[0].layer,
            factor=factor,
            eps_share=None if factor is None else _eps_share(assembly, stack, adds, factor),
        )
    return found


def fitting(largest: float, limit: float) -> float | None:
    """The largest power of two f with SPARE f largest <= limit; None for an infinite `largest`.

    >>> fitting(100000.0, 65504.0)
    0.25
    """
    if not math.isfinite(largest):
        return None
    factor = 1.0
    while SPARE * factor * largest > limit:
        factor /= 2
    return factor


def _is_scale_free(stack: Stack, adds: Sequence[ResidualAdd]) -> bool:
    """Whether every reader of the stream is a norm, so that its scale is nobody's business."""
    return (
        stack.final_norm is not None
        and stack.read_by == "norm"
        and all(a.placement in _NORM_FIRST and a.input_norms for a in adds)
    )


def _eps_share(
    assembly: Assembly, stack: Stack, adds: Sequence[ResidualAdd], factor: float
) -> Worst | None:
    """eps / (f^2 m2 + eps) at the median and the smallest m2 of each reader; the worst of each."""
    readers = dict.fromkeys([*(n for a in adds for n in a.input_norms), stack.final_norm])
    streams = [assembly.norm_streams[n] for n in readers if n in assembly.norm_streams]
    streams = [s for s in streams if s.m2.count]
    if not streams:
        return None
    shares = np.array(
        [s.divisor.eps_share(factor**2 * np.array([s.m2.median, s.m2.low])) for s in streams]
    )
    median, largest = (float(share) for share in shares.max(axis=0))
    return Worst(median=median, max=largest)
