"""From a report to the exit code."""

from __future__ import annotations

import typer

from normdiag.cli.options import FailOn
from normdiag.errors import ExitCode, IncompleteError
from normdiag.report.gate import lacking, reached
from normdiag.report.report import Report


def leave(report: Report, fail_on: FailOn, require_complete: bool) -> None:
    """Exit 1 where a finding reaches `fail_on`; raise IncompleteError (4) where evidence lacks.

    The finding goes first: it is a fact, whatever could not be seen beside it.
    """
    code = reached(report, fail_on.value)
    if code is not ExitCode.PASSED:
        raise typer.Exit(code)
    lack = lacking(report)
    if require_complete and lack:
        raise IncompleteError(
            f"the evidence is incomplete ({lack[0]})",
            f"{len(lack)} in all, under 'not understood' of the report; "
            "measure them, or leave their rules out with --ignore",
        )


def leave_checked(report: Report) -> None:
    """Exit as the check in `report` came out; raise IncompleteError (4) where it could not tell."""
    check = report.check
    if check is None or check.exit_code == ExitCode.PASSED:
        return
    if check.exit_code != ExitCode.INCOMPLETE:
        raise typer.Exit(check.exit_code)
    unknown = [bounded.why for bounded in check.bounds if bounded.state == "unknown"]
    if unknown:
        raise IncompleteError(
            f"a bound cannot be judged: {unknown[0]}", "have it measured, or drop the bound"
        )
    leave(report, FailOn.NEVER, require_complete=True)
