"""`normdiag compare A B`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from normdiag.cli.options import Comparing, FailOn, Judging, Output, TargetOrReport
from normdiag.errors import ExitCode, IncompleteError, UsageError
from normdiag.findings import SEVERITIES

if TYPE_CHECKING:
    from normdiag.report.compare.comparison import Comparison


def compare(
    context: typer.Context,
    a: TargetOrReport,
    b: TargetOrReport,
    comparing: Comparing,
    judging: Judging,
    output: Output,
) -> None:
    """Say what differs between two models, and where their streams part.

    Two models are run on the same inputs, one after the other, and compared value by value; reports
    by the numbers they hold, which needs no torch. Norms and adds are matched by name or, in
    ported code, by their place in the data flow. --fail-on error: what two forms of one model
    never differ in (structure, epsilon, swapped layers), and error findings that are new or worse;
    warning: other values too. Unless --measure asks for more, stream and norms are measured.

    \b
    normdiag compare ./original ./converted
    normdiag compare ./checkpoint ./checkpoint --b-dtype float16
    normdiag compare org/base org/base --b-adapter ./lora
    normdiag compare step1000.json step2000.json -f markdown
    """
    from normdiag.cli import request
    from normdiag.cli.observe import compare_targets
    from normdiag.cli.output import deliver_comparison, require_comparable, require_writable

    require_writable(output)
    require_comparable(output)
    reports = [each for each in (a, b) if each.endswith(".json")]
    if len(reports) == 2 and comparing != Comparing():
        raise UsageError(
            "both are saved reports: nothing is loaded, run or measured again",
            "drop the options that say how, or give the targets themselves",
        )
    settings = request.settings(judging, output.verbose)
    settings = request.measuring_quickly(settings, comparing.observing)
    comparison = compare_targets((a, b), comparing, settings, context)
    deliver_comparison(comparison, output)
    _leave(comparison, judging)


def _leave(comparison: Comparison, judging: Judging) -> None:
    fail_on = judging.fail_on or FailOn.NEVER
    if fail_on is not FailOn.NEVER:
        failing = SEVERITIES[SEVERITIES.index(fail_on.value) :]
        if comparison.severities.intersection(failing):
            raise typer.Exit(ExitCode.GATE_FAILED)
    if judging.require_complete and (comparison.note or comparison.unjudged):
        why = comparison.note or comparison.unjudged[0].why
        raise IncompleteError(
            f"not all could be compared ({why})", "give both as targets that run on the same inputs"
        )
