"""Where two streams diverge, by their values on the same inputs or else by their norms."""

from __future__ import annotations

import math
from collections.abc import Iterator

from normdiag.evidence.differences import AddDifference, RelativeDifference
from normdiag.evidence.statistics import MeanMedianMax
from normdiag.evidence.stream import AddMeasurement
from normdiag.report.compare.comparison import Difference, Divergence, StreamDifference, StreamPart
from normdiag.report.compare.report_pair import ReportPair, format_ids

_ONE_TOKEN = 30.0
"""Factor on the tolerance for a single token: tokens with massive activations are rounded up to ten
times worse than the median (in a real model of 60 adds)."""


def iterate_stream_differences(sides: ReportPair, *, by_values: bool) -> Iterator[StreamDifference]:
    """Yield differences at adds measured in both, in the order of the forward."""
    mine, theirs = sides.a.measurements.stream, sides.b.measurements.stream
    for a, b in sides.pairing.adds:
        at, there = mine.get(a.id), theirs.get(b.id)
        difference = sides.differences.adds.get(a.id) if by_values else None
        tokens = None if difference is None else difference.tokens
        if not by_values and at is not None and there is not None:
            difference = _add_norm_difference(at, there)
        if difference is not None:
            yield StreamDifference(
                a=a.id,
                b=b.id,
                skip=difference.skip,
                branch=difference.branch,
                out=difference.out,
                tolerance=sides.rounding.stream_tolerance(a.depth),
                tokens=tokens,
                a_norm=None if at is None else at.out_norm.mean,
                b_norm=None if there is None else there.out_norm.mean,
            )


def _add_norm_difference(a: AddMeasurement, b: AddMeasurement) -> AddDifference:
    return AddDifference(
        tokens=a.tokens,
        skip=_norm_difference(a.skip_norm, b.skip_norm),
        branch=_norm_difference(a.branch_norm, b.branch_norm),
        out=_norm_difference(a.out_norm, b.out_norm),
    )


def _norm_difference(a: MeanMedianMax, b: MeanMedianMax) -> RelativeDifference:
    """Difference of norms: `max` compares maxima, `after_scaling` is what one factor leaves."""
    ratios = [
        _finite_ratio(x, y) for x, y in ((a.mean, b.mean), (a.median, b.median), (a.max, b.max))
    ]
    factor = ratios[1]
    return RelativeDifference(
        median=max(abs(ratio - 1.0) for ratio in ratios[:2]),
        max=abs(ratios[2] - 1.0),
        factor=factor,
        after_scaling=max(abs(ratio / factor - 1.0) for ratio in ratios) if factor else math.inf,
    )


def _finite_ratio(a: float, b: float) -> float:
    """b / a; 1 where they are equal, also for non-finite values."""
    if a == b or (math.isnan(a) and math.isnan(b)):
        return 1.0
    if not (math.isfinite(a) and math.isfinite(b)):
        return math.inf
    return b / a if a else math.inf


def find_first_divergence(stream: tuple[StreamDifference, ...]) -> Divergence | None:
    """Find the first add whose operands or sum differ beyond the tolerance."""
    for site in stream:
        for where, difference in _parts_in_order(site):
            if exceeds_tolerance(difference, site.tolerance):
                return Divergence(
                    a=site.a,
                    b=site.b,
                    where=where,
                    error=_relative_error(difference, site.tolerance),
                    out=_relative_error(site.out, site.tolerance),
                    tolerance=site.tolerance,
                )
    return None


def _parts_in_order(site: StreamDifference) -> Iterator[tuple[StreamPart, RelativeDifference]]:
    """Parts in causal order. A branch difference counts only where the sum differs."""
    yield "skip", site.skip
    if exceeds_tolerance(site.out, site.tolerance):
        yield "branch", site.branch
        yield "out", site.out


def exceeds_tolerance(difference: RelativeDifference, tolerance: float) -> bool:
    """At half of the tokens, or far beyond the tolerance at one."""
    return difference.median > tolerance or difference.max > _ONE_TOKEN * tolerance


def _relative_error(difference: RelativeDifference, tolerance: float) -> float:
    return difference.median if difference.median > tolerance else difference.max


def find_stream_differences(
    sides: ReportPair, stream: tuple[StreamDifference, ...]
) -> list[Difference]:
    """Find where one stream is not finite, a multiple of the other, or diverges."""
    differences = list(_find_nonfinite(sides))
    part = find_first_divergence(stream)
    if part is None:
        return differences
    site = next(site for site in stream if site.a == part.a)
    factor = _scale_factor(site, part)
    differences.append(
        Difference(
            kind="stream" if factor is None else "stream-factor",
            severity="warning" if factor is None else "error",
            a=(part.a,),
            b=(part.b,),
            message=_describe_divergence(part, factor, is_first=_is_first_add(sides, part)),
            value=part.error,
            tolerance=part.tolerance,
        )
    )
    return differences


def _is_first_add(sides: ReportPair, part: Divergence) -> bool:
    return next(add.depth == 0 for add, _ in sides.pairing.adds if add.id == part.a)


def _describe_divergence(part: Divergence, factor: float | None, *, is_first: bool) -> str:
    name = format_ids((part.a, part.b))
    what = {
        "skip": f"the input of {name}",
        "branch": f"the branch of {name}",
        "out": f"the stream after {name}",
    }[part.where]
    if is_first and part.where == "skip":
        what = f"the start of the stream (the embedding) at {name}"
    if factor is not None:
        return f"{what} is {factor:.6g} times as large in B as in A"
    return f"the streams diverge: {what} differs"


def _scale_factor(site: StreamDifference, part: Divergence) -> float | None:
    """Return c where the differing part is c times that of the first, within rounding."""
    difference = {"skip": site.skip, "branch": site.branch, "out": site.out}[part.where]
    is_scaled = math.isfinite(difference.factor) and difference.after_scaling <= site.tolerance
    return difference.factor if is_scaled and abs(difference.factor - 1) > site.tolerance else None


def _find_nonfinite(sides: ReportPair) -> Iterator[Difference]:
    mine, theirs = sides.a.measurements.stream, sides.b.measurements.stream
    for a, b in sides.pairing.adds:
        if a.id not in mine or b.id not in theirs:
            continue
        finite = [math.isfinite(measured.max_abs) for measured in (mine[a.id], theirs[b.id])]
        if finite[0] != finite[1]:
            bad, good = ("B", "A") if finite[0] else ("A", "B")
            yield Difference(
                kind="non-finite",
                severity="error",
                a=(a.id,),
                b=(b.id,),
                message=f"the stream of {bad} is not finite from {format_ids((a.id, b.id))} on, "
                f"that of {good} is",
            )
            return
