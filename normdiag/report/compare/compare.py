"""Compare two reports, with differences of both models' values where they were measured."""

from __future__ import annotations

from collections.abc import Mapping

from normdiag.errors import UsageError
from normdiag.evidence.differences import Differences
from normdiag.evidence.subject import InputSummary
from normdiag.number_text import format_number
from normdiag.report import inputs
from normdiag.report.compare import finding_changes, moved_layers, stream_differences
from normdiag.report.compare.comparison import (
    Comparison,
    ComparisonBasis,
    Difference,
    Divergence,
    StreamDifference,
)
from normdiag.report.compare.output_differences import (
    are_outputs_identical,
    find_norm_differences,
    find_output_differences,
    find_output_sum_differences,
    list_equal_outputs,
    list_not_compared,
)
from normdiag.report.compare.pairing import pair_sites
from normdiag.report.compare.report_pair import ReportPair, forward_order
from normdiag.report.compare.rounding import Rounding, list_stored
from normdiag.report.compare.structure_differences import find_structure_differences
from normdiag.report.compare.tensor_differences import (
    are_all_tensors_equal,
    describe_unequal_tensors,
    find_tensor_differences,
    format_names,
    list_unequal_tensors,
)
from normdiag.report.compare.weight_differences import find_weight_differences
from normdiag.report.report import Report

_STREAM = ("non-finite", "stream", "stream-factor", "output")


def compare_reports(
    a: Report, b: Report, measured: Differences | None = None, note: str | None = None
) -> Comparison:
    """Compare two reports; `measured` holds the differences at paired sites on the same inputs.

    Without it, streams are compared by their norms in the reports if both ran on the same inputs.
    `note` states why there is no better basis. Raises UsageError for a report without structure.
    """
    _require_structure(a, "A")
    _require_structure(b, "B")
    rounding = Rounding.coarser_of(a, b)
    sides = ReportPair(a, b, pair_sites(a, b, rounding), rounding, measured or Differences())
    basis, why = _choose_basis(sides)
    stream = (
        ()
        if basis == "structure"
        else tuple(
            stream_differences.iterate_stream_differences(sides, by_values=basis == "values")
        )
    )
    layers = moved_layers.find_moved_layers(sides)
    differences = [
        *find_structure_differences(sides),
        *moved_layers.describe_moved_layers(sides, layers),
        *find_weight_differences(sides, layers),
        *find_tensor_differences(sides, has_moved_layers=any(layers.layers.values())),
        *stream_differences.find_stream_differences(sides, stream),
    ]
    named = frozenset(name for difference in differences for name in difference.a)
    part = stream_differences.find_first_divergence(stream)
    differences += find_norm_differences(sides, named, layers)
    differences += find_output_differences(sides, part)
    if basis == "summaries":
        differences += find_output_sum_differences(sides, part)
    if not differences:
        differences += describe_unequal_tensors(sides)
    ordered = _sort_differences(differences, sides)
    return Comparison(
        a=a.subject,
        b=b.subject,
        headline=_write_headline(ordered, part, stream, sides),
        basis=basis,
        note="; ".join(part for part in (note, why, _describe_storage(a, b)) if part) or None,
        paired_by="id" if sides.pairing.is_by_id else "position",
        dtype=rounding.dtype,
        differences=ordered,
        first_divergence=part,
        stream=stream,
        outputs=sides.differences.outputs,
        norms=sides.differences.norms,
        gains=sides.differences.gains,
        biases=sides.differences.biases,
        equal_outputs=list_equal_outputs(sides) if basis == "summaries" else (),
        not_compared=tuple(list_not_compared(sides)),
        changes=tuple(finding_changes.find_changes(a, b, sides.pairing.paired_ids)),
        skipped_rules=finding_changes.rules_skipped_once(a, b),
    )


def _require_structure(report: Report, name: str) -> None:
    if not (report.architecture.stacks or report.architecture.norms):
        raise UsageError(
            f"{name} ({report.subject.target}) has no structure to compare: "
            f"mode {report.subject.mode}",
            "inspect a model that runs, or use --structure-only",
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


def _describe_storage(a: Report, b: Report) -> str | None:
    mine, theirs = list_stored(a), list_stored(b)
    if not (mine and theirs) or mine == theirs:
        return None
    return f"stored in {' and '.join(mine)} in A, in {' and '.join(theirs)} in B"


def _describe_inputs(probe: InputSummary) -> str:
    seed = "" if probe.seed is None else f", seed {probe.seed}"
    return f"{probe.sequences} sequences of {probe.tokens} tokens ({probe.kind}{seed})"


def _sort_differences(differences: list[Difference], sides: ReportPair) -> tuple[Difference, ...]:
    """Sort causes by their first site in the forward, then differences of the stream."""
    mine, theirs = forward_order(sides.a.architecture), forward_order(sides.b.architecture)

    def key(difference: Difference) -> tuple[bool, float]:
        ids, places = (difference.a, mine) if difference.a else (difference.b, theirs)
        return difference.kind in _STREAM, places.get(ids[0], 0)

    return tuple(sorted(differences, key=key))


def _write_headline(
    differences: tuple[Difference, ...],
    part: Divergence | None,
    stream: tuple[StreamDifference, ...],
    sides: ReportPair,
) -> str:
    """State the first cause and its effect, or the effect where no cause is known."""
    causes = [difference for difference in differences if difference.kind not in _STREAM]
    effects = "; ".join(d.message for d in differences if d.kind in _STREAM)
    if not causes:
        if not effects:
            return _describe_no_difference(stream, sides)
        return f"{effects}; {_describe_next_step(part, sides)}"
    rest = len(causes) - 1
    more = f" (and {rest} more {'difference' if rest == 1 else 'differences'})" if rest else ""
    cause = causes[0].message + more
    if part is None:
        if effects:
            return f"{cause}; {effects}"
        return f"{cause}; the stream is equal within rounding" if stream else cause
    places = forward_order(sides.a.architecture)
    if causes[0].a and _start_of_divergence(part, places, sides) < places.get(causes[0].a[0], 0):
        return f"{effects}; downstream, {cause}"
    site = next(site for site in stream if site.a == part.a)
    error = f"relative error {format_number(part.out)}{_describe_single_tokens(site)}"
    return f"{cause}; the stream diverges from {part.a} on ({error})"


def _describe_single_tokens(site: StreamDifference) -> str:
    """What an error is that only some tokens have, beside the median of all."""
    if site.out.median > site.tolerance:
        return ""
    where = "of the largest norm" if site.tokens is None else "at the worst token"
    return f" {where}, median {format_number(site.out.median)}"


def _start_of_divergence(part: Divergence, places: Mapping[str, float], sides: ReportPair) -> float:
    """The place in the forward from which on a difference cannot be the cause."""
    add = next(add for add, _ in sides.pairing.adds if add.id == part.a)
    if part.where != "skip":
        return places[part.a]
    inside = (*add.input_norms, *add.inner_norms, *add.output_norms, add.id)
    return min(places[name] for name in inside) - 5e-7  # after a norm that precedes them all


def _describe_next_step(part: Divergence | None, sides: ReportPair) -> str:
    """Advice where no cause is known; equality is claimed only of what was compared."""
    unequal = list_unequal_tensors(sides)
    if unequal:
        return f"tensors that differ: {format_names(unequal)}"
    if part is None:
        what = "tensors" if are_all_tensors_equal(sides) else "norms and branch weights"
        return f"no {what} differ: compare the code behind the last add"
    if part.where != "branch":
        return "no norms and no branch weights differ"
    if are_all_tensors_equal(sides):
        return "its norms and weights are equal: compare the code of that branch"
    return (
        "no difference in its norms nor in the norm and sum of its weights; not all tensors were "
        "compared in order"
    )


def _describe_no_difference(stream: tuple[StreamDifference, ...], sides: ReportPair) -> str:
    rounding, outputs = sides.rounding, sides.differences.outputs
    if not stream:
        return "no difference in structure, norms and weights; the streams were not compared"
    parts = [part for site in stream for part in (site.skip, site.branch, site.out)]
    if all(part.max == part.median == 0.0 for part in parts):
        is_equal = are_outputs_identical(sides)
        if outputs:
            is_equal = all(each.max == 0.0 for each in outputs.values())
        what = "streams and outputs are" if is_equal else "streams are"
        return f"no difference: the {what} equal in every number that was compared"
    worst = max(stream, key=lambda site: site.out.median)
    statistic = "of norms over tokens" if worst.tokens is None else "median over tokens"
    largest = max((each.median for each in outputs.values()), default=None)
    behind = "" if largest is None else f"; that of the outputs at most {format_number(largest)}"
    return (
        f"no difference beyond rounding in {rounding.dtype}: the relative error of the stream "
        f"({statistic}) is at most {format_number(worst.out.median)} at {worst.a} (rounding "
        f"tolerance {format_number(worst.tolerance)}){behind}"
    )
