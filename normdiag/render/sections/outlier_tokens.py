"""The outlier tokens of a sequence, in words: attention sinks and massive activations."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

from normdiag.evidence.tokens import TokenTrace
from normdiag.number_text import format_count, format_number
from normdiag.render.escape import shorten_text
from normdiag.report.report import Report

_OUTLIER = 4.0
"""A stream norm of that many times the median token's is worth a sentence."""
_MASSIVE = 1000.0
"""Of the median magnitude: massive activations as defined by Sun et al., 2024."""
_SHOWN = 3
_FEWEST = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class _TokenPeak:
    """Where a token's stream norm is largest relative to the median token's."""

    position: int
    site: str
    norm: float
    ratio: float
    sites: int
    """After how many adds it is an outlier."""


def describe_outliers(report: Report, trace: TokenTrace) -> Iterator[str]:
    """Yield one sentence for each outlier token, or one that there is none."""
    length = len(trace.tokens)
    traced = {id: norms for id, norms in trace.out_norm.items() if len(norms) == length}
    if not traced or length < _FEWEST:
        return
    medians = {id: _finite_median(norms) for id, norms in traced.items()}
    peaks = sorted(
        (_find_peak(traced, medians, position) for position in range(length)),
        key=lambda peak: peak.ratio,
        reverse=True,
    )
    outliers = [peak for peak in peaks if peak.ratio >= _OUTLIER]
    if not outliers:
        yield (
            f"No outlier token: largest stream norm {format_number(peaks[0].ratio)} × the median "
            f"token's, at token {_quote_token(trace, peaks[0].position)}."
        )
    for peak in outliers[:_SHOWN]:
        yield _describe_peak(report, trace, peak, len(traced))
    if len(outliers) > _SHOWN:
        yield f"And {format_count(len(outliers) - _SHOWN, 'other outlier token')}."


def _find_peak(
    traced: dict[str, tuple[float, ...]], medians: dict[str, float | None], position: int
) -> _TokenPeak:
    ratios = {id: _norm_ratio(norms[position], medians[id]) for id, norms in traced.items()}
    site = max(ratios, key=lambda id: ratios[id])
    return _TokenPeak(
        position=position,
        site=site,
        norm=traced[site][position],
        ratio=ratios[site],
        sites=sum(ratio >= _OUTLIER for ratio in ratios.values()),
    )


def _finite_median(norms: tuple[float, ...]) -> float | None:
    """Return the median of the finite ones; None where there are none."""
    finite = [norm for norm in norms if math.isfinite(norm)]
    return median(finite) if finite else None


def _norm_ratio(norm: float, typical: float | None) -> float:
    """Return a token's norm over the median one; 0 where there is none to compare with."""
    if typical is None or norm == 0:
        return 0.0
    return norm / typical if typical > 0 and math.isfinite(norm) else math.inf


def _quote_token(trace: TokenTrace, position: int) -> str:
    special = " (special)" if any(trace.special[position : position + 1]) else ""
    return f'{position} "{shorten_text(trace.tokens[position])}"{special}'


def _describe_peak(report: Report, trace: TokenTrace, peak: _TokenPeak, adds: int) -> str:
    text = (
        f"Outlier token {_quote_token(trace, peak.position)}, after {peak.sites} of "
        f"{format_count(adds, 'add')}: stream norm {format_number(peak.norm)}"
    )
    if math.isfinite(peak.ratio):
        text += f" ({format_number(peak.ratio)} × median token)"
    text += f" at {shorten_text(peak.site)}{_describe_largest_value(report, trace, peak)}."
    return f"{text} First tokens often serve as attention sinks." if peak.position == 0 else text


def _describe_largest_value(report: Report, trace: TokenTrace, peak: _TokenPeak) -> str:
    token = slice(peak.position, peak.position + 1)
    values, channels = trace.max_abs.get(peak.site, ()), trace.max_channel.get(peak.site, ())
    text = ""
    for value, channel in zip(values[token], channels[token], strict=False):
        text += f"; max |y| {format_number(value)} in channel {channel}"
        add = report.measurements.stream.get(peak.site)
        if add is not None and add.median_abs and value / add.median_abs >= _MASSIVE:
            ratio = format_number(value / add.median_abs)
            text += f", a massive activation ({ratio} × median)"
    return text
