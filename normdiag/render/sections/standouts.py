"""The tokens that stand out of a sequence, in words: attention sinks and massive activations."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

from normdiag.evidence.tokens import TokenTrace
from normdiag.render.escape import visible
from normdiag.render.units import count, number, times
from normdiag.report.report import Report

_STANDS_OUT = 4.0
"""A stream norm of that many times the median token's is worth a sentence."""
_MASSIVE = 1000.0
"""Of the median magnitude: massive activations as defined by Sun et al., 2024."""
_NAMED = 3
_FEWEST = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class _Peak:
    """Where a token's stream norm is largest beside the median token's."""

    position: int
    site: str
    norm: float
    ratio: float
    sites: int
    """After how many adds it stands out."""


def sentences(report: Report, trace: TokenTrace) -> Iterator[str]:
    """Yield one sentence for each token that stands out, or one that says that none does."""
    length = len(trace.tokens)
    traced = {id: norms for id, norms in trace.out_norm.items() if len(norms) == length}
    if not traced or length < _FEWEST:
        return
    typical = {id: _typical(norms) for id, norms in traced.items()}
    peaks = sorted(
        (_peak(traced, typical, position) for position in range(length)),
        key=lambda peak: peak.ratio,
        reverse=True,
    )
    named = [peak for peak in peaks if peak.ratio >= _STANDS_OUT]
    if not named:
        yield (
            f"No token stands out: the largest stream norm is {times(peaks[0].ratio)} the median "
            f"token's, at token {_name(trace, peaks[0].position)}."
        )
    for peak in named[:_NAMED]:
        yield _sentence(report, trace, peak, len(traced))
    if len(named) > _NAMED:
        yield f"So do {count(len(named) - _NAMED, 'other token')}."


def _peak(traced: dict[str, tuple[float, ...]], typical: dict[str, float], position: int) -> _Peak:
    ratios = {id: _ratio(norms[position], typical[id]) for id, norms in traced.items()}
    site = max(ratios, key=lambda id: ratios[id])
    return _Peak(
        position=position,
        site=site,
        norm=traced[site][position],
        ratio=ratios[site],
        sites=sum(ratio >= _STANDS_OUT for ratio in ratios.values()),
    )


def _typical(norms: tuple[float, ...]) -> float:
    """Return the median of the finite ones; 0 where there are none."""
    return median([norm for norm in norms if math.isfinite(norm)] or [0.0])


def _ratio(norm: float, typical: float) -> float:
    """Return a token's norm over the typical one; 0 where there is none to compare with."""
    if typical == 0:
        return 0.0
    return norm / typical if math.isfinite(norm) else math.inf


def _name(trace: TokenTrace, position: int) -> str:
    special = " (special)" if any(trace.special[position : position + 1]) else ""
    return f'{position} "{visible(trace.tokens[position])}"{special}'


def _sentence(report: Report, trace: TokenTrace, peak: _Peak, adds: int) -> str:
    said = (
        f"Token {_name(trace, peak.position)} stands out after {peak.sites} of "
        f"{count(adds, 'add')}: stream norm {number(peak.norm)} at {visible(peak.site)}"
    )
    if math.isfinite(peak.ratio):
        said += f", {times(peak.ratio)} the median token's"
    said += _largest_value(report, trace, peak)
    return f"{said}." + (" First tokens often serve as attention sinks." * (peak.position == 0))


def _largest_value(report: Report, trace: TokenTrace, peak: _Peak) -> str:
    here = slice(peak.position, peak.position + 1)
    values, channels = trace.max_abs.get(peak.site, ()), trace.max_channel.get(peak.site, ())
    said = ""
    for value, channel in zip(values[here], channels[here], strict=False):
        said += f"; largest value {number(value)} in channel {channel}"
        seen = report.measurements.stream.get(peak.site)
        if seen is not None and seen.median_abs and value / seen.median_abs >= _MASSIVE:
            said += f", a massive activation ({times(value / seen.median_abs)} the median)"
    return said
