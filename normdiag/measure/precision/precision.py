"""The measured values against each number format, and what makes a stream fit into it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from normdiag.evidence.architecture import ResidualAdd, Stack
from normdiag.evidence.measurements import Measurements
from normdiag.evidence.number_formats import LOW_PRECISION_FORMATS, NumberFormat
from normdiag.evidence.precision import FormatHeadroom, Precision, Remedy
from normdiag.evidence.statistics import MedianMax
from normdiag.evidence.stream import AddMeasurement
from normdiag.measure.sites.branch_peaks import PeakSummary
from normdiag.measure.sites.samples import AddSample
from normdiag.measure.sites.site_statistics import SiteStatistics
from normdiag.measure.sites.stream import AddAccumulator
from normdiag.numerics.rounding import count_absorbed

SPARE = 2.0
"""A remedy leaves room for values this many times as large: other inputs may reach larger ones."""
_NORM_FIRST = ("pre", "sandwich", "parallel-pre")
"""Placements whose branches read the stream through a norm, and write to it unnormalised."""


@dataclass(frozen=True, slots=True)
class _LargestValues:
    """What has to fit into a format, by id; NaN is left out."""

    values: Mapping[str, float]
    """Of adds, norm inputs and inner peaks."""
    squares: Mapping[str, float]
    """Of norms."""
    formats: Mapping[str, str | None]
    """In which format the run computed each of the values."""
    square_formats: Mapping[str, str]


def measure_precision(statistics: SiteStatistics, measured: Measurements) -> Precision | None:
    """Compare the adds and norms that were measured with each format; None without adds.

    The bounds on attention logits are a measure of their own.
    """
    if not measured.stream:
        return None
    peaks = statistics.branch_peaks.compute()
    largest = _find_largest_values(statistics, measured, peaks)
    return Precision(
        formats={
            number_format.name: _format_headroom(number_format, statistics, largest)
            for number_format in LOW_PRECISION_FORMATS
        },
        max_abs=dict(largest.values),
        max_square=dict(largest.squares),
        square_formats={id: peaks.square_formats[id] for id in largest.squares},
        inner_peaks=peaks.inner,
    )


def _find_largest_values(
    statistics: SiteStatistics, measured: Measurements, peaks: PeakSummary
) -> _LargestValues:
    values = {id: largest_value(add) for id, add in measured.stream.items()}
    values |= {id: norm.max_abs for id, norm in measured.norms.items()}
    values |= {peak.id: peak.value for peak in peaks.inner}
    values = {id: value for id, value in values.items() if not math.isnan(value)}
    squares = {
        id: value
        for id, value in peaks.squares.items()
        if not math.isnan(value) and values.get(id) != math.inf
    }
    formats: dict[str, str | None] = {peak.id: peak.dtype for peak in peaks.inner}
    for id, add in statistics.add_accumulators.items():
        dtypes = add.extremes.compute().dtypes
        formats[id] = None if dtypes is None else dtypes.out
    return _LargestValues(values, squares, formats, peaks.square_formats)


def largest_value(add: AddMeasurement) -> float:
    """The largest |value| of x, u and y; NaN where one is."""
    sides = (add.max_abs, add.skip_max_abs or 0.0, add.branch_max_abs or 0.0)
    return math.nan if any(map(math.isnan, sides)) else max(sides)


def _format_headroom(
    number_format: NumberFormat, statistics: SiteStatistics, largest: _LargestValues
) -> FormatHeadroom:
    values = _values_of_format(number_format, largest.values, largest.formats)
    squares = _values_of_format(number_format, largest.squares, largest.square_formats)
    norms = statistics.sites.architecture.norms
    site, headroom = _tightest_site(number_format.largest, values)
    square_site, square_headroom = _tightest_site(number_format.largest, squares)
    samples = statistics.add_samples
    adds = statistics.add_accumulators
    absorbed = {id: _absorbed_share(number_format, add, samples[id]) for id, add in adds.items()}
    return FormatHeadroom(
        largest=number_format.largest,
        headroom=headroom,
        headroom_site=site,
        square_headroom=square_headroom,
        square_headroom_site=square_site,
        absorbed_updates={id: share for id, share in absorbed.items() if share is not None},
        absorbed_sample=_smallest_sample(number_format, adds, samples),
        underflowing_epsilons=tuple(n.id for n in norms if _is_lost(n.eps, number_format)),
        overflowing_gains=tuple(
            n.id for n in norms if n.gain is not None and n.gain.max_abs > number_format.largest
        ),
        remedies=_find_remedies(number_format.largest, statistics, values),
    )


def _values_of_format(
    number_format: NumberFormat, values: Mapping[str, float], formats: Mapping[str, str | None]
) -> dict[str, float]:
    """Drop the infinities that another format produced: they say nothing of this one."""
    name = number_format.name
    return {id: v for id, v in values.items() if v != math.inf or formats.get(id) == name}


def _tightest_site(limit: float, values: Mapping[str, float]) -> tuple[str | None, float | None]:
    id = max(values, key=lambda id: values[id], default=None)
    if id is None or values[id] == 0:
        return None, None
    return id, limit / values[id]


def _is_lost(eps: float | None, number_format: NumberFormat) -> bool:
    return eps is not None and 0 < eps <= number_format.smallest_subnormal / 2


def _is_counted(number_format: NumberFormat, add: AddAccumulator) -> bool:
    """Whether the run itself added in this format, so that every token was counted."""
    extremes = add.extremes.compute()
    is_own_format = extremes.dtypes is not None and extremes.dtypes.out == number_format.name
    return is_own_format and extremes.written_elements > 0


def _absorbed_share(
    number_format: NumberFormat, add: AddAccumulator, samples: Sequence[AddSample]
) -> float | None:
    """From all tokens where the run itself added in this format, else from the sampled ones."""
    if _is_counted(number_format, add):
        extremes = add.extremes.compute()
        return extremes.absorbed_elements / extremes.written_elements
    counts = [
        count_absorbed(sample.skip_rows, sample.branch_rows, number_format) for sample in samples
    ]
    absorbed, written = (sum(column) for column in zip(*counts, strict=True))
    return absorbed / written if written else None


def _smallest_sample(
    number_format: NumberFormat,
    adds: Mapping[str, AddAccumulator],
    samples: Mapping[str, Sequence[AddSample]],
) -> int | None:
    """Tokens of an add that was not counted at every token; None where all were."""
    sizes = {
        id: sum(len(sample.rows) for sample in samples[id])
        for id, add in adds.items()
        if not _is_counted(number_format, add)
    }
    sampled = [size for id, size in sizes.items() if 0 < size < adds[id].columns["out"].count]
    return min(sampled, default=None)


def _find_remedies(
    limit: float, statistics: SiteStatistics, values: Mapping[str, float]
) -> dict[str, Remedy]:
    architecture = statistics.sites.architecture
    remedies = {}
    for stack in architecture.stacks:
        adds = [a for a in architecture.adds_of_stack(stack.id) if a.id in values]
        overflowing = [a for a in adds if values[a.id] > limit]
        if not overflowing:
            continue
        factor = None
        if _is_scale_free(stack, adds):
            factor = fitting_factor(max(values[a.id] for a in overflowing), limit)
        share = None if factor is None else _scaled_eps_share(statistics, stack, adds, factor)
        remedies[stack.id] = Remedy(layer=overflowing[0].layer, factor=factor, eps_share=share)
    return remedies


def fitting_factor(largest: float, limit: float) -> float | None:
    """The largest power of two f with SPARE f largest <= limit; None for an infinite `largest`.

    >>> fitting_factor(100000.0, 65504.0)
    0.25
    """
    if not math.isfinite(largest):
        return None
    factor = 1.0
    while SPARE * factor * largest > limit:
        factor /= 2
    return factor


def _is_scale_free(stack: Stack, adds: Sequence[ResidualAdd]) -> bool:
    """Whether only norms read the stream, so that scaling it changes no output."""
    return (
        stack.final_norm is not None
        and stack.read_by == "norm"
        and all(a.placement in _NORM_FIRST and a.input_norms for a in adds)
    )


def _scaled_eps_share(
    statistics: SiteStatistics, stack: Stack, adds: Sequence[ResidualAdd], factor: float
) -> MedianMax | None:
    """Largest eps / (f^2 m2 + eps) over readers, at the median and at the smallest m2 of each."""
    readers = dict.fromkeys([*(n for a in adds for n in a.input_norms), stack.final_norm])
    norms = statistics.norm_accumulators
    shares = []
    for norm in (norms[id] for id in readers if id in norms):
        if norm.m2.count:
            m2 = norm.m2.compute()
            shares.append(norm.divisor.eps_share(factor**2 * np.array([m2.median, m2.min])))
    if not shares:
        return None
    median, largest = (float(share) for share in np.array(shares).max(axis=0))
    return MedianMax(median=median, max=largest)
