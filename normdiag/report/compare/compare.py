"""Two reports, and what was measured of both models at once, become one comparison."""

from __future__ import annotations

from collections.abc import Mapping

from normdiag.errors import UsageError
from normdiag.evidence.differences import Differences
from normdiag.evidence.subject import InputSummary
from normdiag.report import inputs
from normdiag.report.compare import finding_changes, moved_layers, stream_differences
from normdiag.report.compare.comparison import (
    Comparison,
    ComparisonBasis,
    Difference,
    Divergence,
    StreamDifference,
)
from normdiag.report.compare.pairing import pair_sites
from normdiag.report.compare.report_pair import ReportPair, forward_order
from normdiag.report.compare.rounding import Rounding
from normdiag.report.compare.structure_differences import find_structure_differences
from normdiag.report.compare.weight_differences import find_weight_differences
from normdiag.report.report import Report

_STREAM = ("non-finite", "stream", "stream-factor")


def compare_reports(
    a: Report, b: Report, seen: Differences | None = None, note: str | None = None
) -> Comparison:
    """Compare two reports; `seen` is what both models made of the same inputs, at paired sites.

    Without it their streams are compared by the lengths that reports hold, where both were run on
    one probe. `note` says why there is no better basis. Raises UsageError for a report that tells
    of no structure.
    """
    _require_structure(a, "A")
    _require_structure(b, "B")
    rounding = Rounding.coarser_of(a.subject, b.subject)
    sides = ReportPair(a, b, pair_sites(a, b, rounding), rounding, seen or Differences())
    basis, why = _choose_basis(sides)
    stream = (
        ()
        if basis == "structure"
        else tuple(
            stream_differences.iterate_stream_differences(sides, by_values=basis == "values")
        )
    )
    layers = moved_layers.find_moved_layers(sides)
    found = [
        *find_structure_differences(sides),
        *moved_layers.describe_moved_layers(sides, layers),
        *find_weight_differences(sides, layers),
        *stream_differences.find_stream_differences(sides, stream),
    ]
    ordered = _sort_differences(found, sides)
    part = stream_differences.find_first_divergence(stream)
    return Comparison(
        a=a.subject,
        b=b.subject,
        headline=_write_headline(ordered, part, stream, sides),
        basis=basis,
        note="; ".join(part for part in (note, why) if part) or None,
        paired_by="id" if sides.pairing.is_by_id else "position",
        dtype=rounding.dtype,
        differences=ordered,
        first_divergence=part,
        stream=stream,
        changes=tuple(finding_changes.find_changes(a, b, sides.pairing.paired_ids)),
        skipped_rules=finding_changes.rules_skipped_once(a, b),
    )


def _require_structure(report: Report, name: str) -> None:
    if not (report.architecture.stacks or report.architecture.norms):
        raise UsageError(
            f"{name} ({report.subject.target}) has no structure to compare: "
            f"mode {report.subject.mode}",
            "inspect it as a model that runs, or with --structure-only",
        )


def _choose_basis(sides: ReportPair) -> tuple[ComparisonBasis, str | None]:
    if sides.differences.adds:
        return "values", None
    mine, theirs = sides.a.subject.probe, sides.b.subject.probe
    if not (sides.a.measurements.stream and sides.b.measurements.stream):
        return "structure", "the stream of at least one of them was not measured"
    if any(a.width != b.width for a, b in sides.pairing.stacks):
        return "structure", "the streams have different widths"
    if not inputs.are_same_inputs(mine, theirs):
        return "structure", (
            f"the streams are not compared: A was run on {_describe_inputs(mine)}, B on "
            f"{_describe_inputs(theirs)}"
        )
    return "summaries", None


def _describe_inputs(probe: InputSummary) -> str:
    seed = "" if probe.seed is None else f", seed {probe.seed}"
    return f"{probe.sequences} sequences of {probe.tokens} tokens ({probe.kind}{seed})"


def _sort_differences(found: list[Difference], sides: ReportPair) -> tuple[Difference, ...]:
    """Causes by their first site in the forward, then what becomes of the stream."""
    mine, theirs = forward_order(sides.a.architecture), forward_order(sides.b.architecture)

    def key(difference: Difference) -> tuple[bool, float]:
        ids, places = (difference.a, mine) if difference.a else (difference.b, theirs)
        return difference.kind in _STREAM, places.get(ids[0], 0)

    return tuple(sorted(found, key=key))


def _write_headline(
    found: tuple[Difference, ...],
    part: Divergence | None,
    stream: tuple[StreamDifference, ...],
    sides: ReportPair,
) -> str:
    """The first cause before its consequence; without a cause the consequence alone."""
    causes = [difference for difference in found if difference.kind not in _STREAM]
    effects = "; ".join(d.message for d in found if d.kind in _STREAM)
    if not causes:
        if not effects:
            return _describe_no_difference(stream, sides.rounding)
        return f"{effects}; {_where_to_look(part)}"
    rest = len(causes) - 1
    more = f" (and {rest} more {'difference' if rest == 1 else 'differences'})" if rest else ""
    cause = causes[0].message + more
    if part is None:
        return f"{cause}; the stream stays the same within rounding" if stream else cause
    places = forward_order(sides.a.architecture)
    if causes[0].a and _start_of_divergence(part, places, sides) < places.get(causes[0].a[0], 0):
        return f"{effects}; behind it, {cause}"
    return f"{cause}; the stream parts from {part.a} on (relative error {part.out:.3g})"


def _start_of_divergence(part: Divergence, places: Mapping[str, float], sides: ReportPair) -> float:
    """What comes before this place in the forward may be the cause, what comes later may not."""
    add = next(add for add, _ in sides.pairing.adds if add.id == part.a)
    if part.where != "skip":
        return places[part.a]
    inside = (*add.input_norms, *add.inner_norms, *add.output_norms, add.id)
    return min(places[name] for name in inside) - 5e-7  # behind a norm that stands before them all


def _where_to_look(part: Divergence | None) -> str:
    """What is left where norms and weights are the same."""
    if part is not None and part.where == "branch":
        return "its norms and weights are the same: look at the code of that branch"
    return "no norm and no weight of a branch differs"


def _describe_no_difference(stream: tuple[StreamDifference, ...], rounding: Rounding) -> str:
    if not stream:
        return "no difference in structure, norms and weights; the streams were not compared"
    worst = max(stream, key=lambda site: site.out.median)
    if worst.out.max == 0.0:
        return "no difference: the streams are equal in every number that was compared"
    return (
        f"no difference beyond rounding in {rounding.dtype}: the relative error of the stream is "
        f"at most {worst.out.median:.3g}, at {worst.a}, where rounding explains "
        f"{worst.tolerance:.3g}"
    )
