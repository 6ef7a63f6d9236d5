"""From a report to the exit code."""

from __future__ import annotations

import typer

from normdiag.cli.options import FailOn
from normdiag.errors import ExitCode, IncompleteError
from normdiag.report.gate import reached
from normdiag.report.report import Report


def leave(report: Report, fail_on: FailOn, require_complete: bool) -> None:
    """Exit 1 where a finding reaches `fail_on`; raise IncompleteError (4) where evidence lacks.

    The finding goes first: it is a fact, whatever could not be seen beside it.
    """
    code = reached(report, fail_on.value)
    if code is not ExitCode.PASSED:
        raise typer.Exit(code)
    lacking = [f"{skip.code}: {skip.why}" for skip in report.rules.skipped]
    lacking += [f"{skipped.what}: {skipped.why}" for skipped in report.coverage.skipped]
    if require_complete and lacking:
        raise IncompleteError(
            f"the evidence is incomplete ({lacking[0]})",
            f"{len(lacking)} in all, under 'not understood' of the report; "
            "measure them, or leave their rules out with --ignore",
        )
