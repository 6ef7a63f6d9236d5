"""Differences of norms' outputs for equal inputs, and of the models' outputs."""

from __future__ import annotations

from collections.abc import Iterator

from normdiag.number_text import format_number
from normdiag.report.compare.comparison import Difference, Divergence
from normdiag.report.compare.moved_layers import MovedLayers
from normdiag.report.compare.report_pair import ReportPair, SiteDifference, fold_differences
from normdiag.report.compare.stream_differences import exceeds_tolerance
from normdiag.report.compare.tensor_differences import have_equal_sums
from normdiag.report.inputs import are_same_inputs


def find_norm_differences(
    sides: ReportPair, named: frozenset[str], moved: MovedLayers
) -> list[Difference]:
    """Find norms that turn equal inputs into other outputs; `named` have a known cause."""
    differences = (each for each in _iterate_norms(sides, moved) if each.ids[0] not in named)
    return fold_differences(differences, "norms", len(sides.pairing.norms))


def _iterate_norms(sides: ReportPair, moved: MovedLayers) -> Iterator[SiteDifference]:
    for a, b in sides.pairing.norms:
        measured = sides.differences.norms.get(a.id)
        if measured is None or moved.is_moved(a.stack, a.layer):
            continue
        tolerance = sides.rounding.stream_tolerance(0)
        is_same_input = measured.input.max <= tolerance
        # a row of tiny variance amplifies rounding: the median decides
        if is_same_input and measured.output.median > 4 * tolerance:
            text = (
                "what the norm puts out differs for equal inputs (its formula, epsilon or a buffer)"
            )
            detail = f"relative error {format_number(measured.output.median)}"
            yield SiteDifference(
                "norm-output",
                "error",
                (a.id, b.id),
                text,
                measured.output.median,
                tolerance,
                detail,
            )


def find_output_differences(sides: ReportPair, part: Divergence | None) -> Iterator[Difference]:
    """Find outputs that differ although all adds agree: the cause is behind the last add."""
    if part is not None or not sides.differences.adds:
        return
    last = max((add for add, _ in sides.pairing.adds), key=lambda add: add.depth)
    tolerance = 4 * sides.rounding.stream_tolerance(last.depth)
    norms = [a.id for a, _ in sides.pairing.norms if a.role == "final"]
    behind = " and ".join([*norms, "the head"]) if norms else "the head"
    for name, measured in sides.differences.outputs.items():
        if exceeds_tolerance(measured, tolerance):
            text = (
                f"the outputs ({name}) differ, relative error {format_number(measured.median)}: "
                f"equal up to the last add {last.id}; the difference arises behind it ({behind})"
            )
            yield Difference(
                kind="output",
                severity="warning",
                a=(last.id,),
                b=(sides.pairing.paired_ids.get(last.id, last.id),),
                message=text,
                value=measured.median,
                tolerance=tolerance,
            )


def find_output_sum_differences(sides: ReportPair, part: Divergence | None) -> Iterator[Difference]:
    """Of saved reports: outputs whose sums differ although all adds agree."""
    equal = list_equal_outputs(sides)
    if part is not None or sides.differences.adds:
        return
    last = max((add for add, _ in sides.pairing.adds), key=lambda add: add.depth)
    for name in _comparable_outputs(sides):
        if name not in equal:
            yield Difference(
                kind="output",
                severity="warning",
                a=(last.id,),
                b=(sides.pairing.paired_ids.get(last.id, last.id),),
                message=f"the outputs ({name}) differ in their sums: equal in norm up to the last "
                f"add {last.id}; the difference arises behind it, or in directions that norms of "
                "the stream do not show",
            )


def list_equal_outputs(sides: ReportPair) -> tuple[str, ...]:
    """Names of outputs that agree in all sums of both reports, within rounding of the stream."""
    mine, theirs = sides.a.measurements.outputs, sides.b.measurements.outputs
    depth = max((add.depth for add, _ in sides.pairing.adds), default=0)
    tolerance = 4 * sides.rounding.stream_tolerance(depth)
    return tuple(
        name
        for name in _comparable_outputs(sides)
        if all(
            have_equal_sums(x, y, tolerance) for x, y in zip(mine[name], theirs[name], strict=True)
        )
    )


def are_outputs_identical(sides: ReportPair) -> bool:
    """Whether both hold sums of the same outputs, equal to the last bit."""
    mine, theirs = sides.a.measurements.outputs, sides.b.measurements.outputs
    return bool(_comparable_outputs(sides)) and mine == theirs


def _comparable_outputs(sides: ReportPair) -> list[str]:
    mine, theirs = sides.a.measurements.outputs, sides.b.measurements.outputs
    if not are_same_inputs(sides.a.subject.probe, sides.b.subject.probe):
        return []
    return [name for name in mine if name in theirs and len(mine[name]) == len(theirs[name])]


def list_not_compared(sides: ReportPair) -> Iterator[str]:
    """What equality is not claimed of."""
    if sides.differences.outputs or _comparable_outputs(sides):
        return
    why = "saved reports"
    if sides.differences.adds:
        why = "no output of one name and shape"
    elif not are_same_inputs(sides.a.subject.probe, sides.b.subject.probe):
        why = "other inputs"
    yield f"outputs: not compared ({why})"
