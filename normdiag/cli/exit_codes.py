"""From a report or a comparison to the exit code."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from normdiag.errors import ExitCode, IncompleteError
from normdiag.findings import SEVERITIES
from normdiag.gate_options import GateOptions
from normdiag.report.gate import gate_exit_code, missing_evidence
from normdiag.report.report import Report

if TYPE_CHECKING:
    from normdiag.report.compare.comparison import Comparison


def exit_on_findings(report: Report, gate: GateOptions) -> None:
    """Exit 1 where a finding reaches `fail_on`; raise IncompleteError (4) for missing evidence.

    The finding goes first: it holds whatever else could not be measured.
    """
    code = gate_exit_code(report, gate.fail_on)
    if code is not ExitCode.PASSED:
        raise typer.Exit(code)
    if gate.require_complete:
        _require_complete(report)


def exit_on_check(report: Report) -> None:
    """Exit as the check in `report` came out; raise IncompleteError (4) where it is undecided."""
    check = report.check
    if check is None or check.exit_code == ExitCode.PASSED:
        return
    if check.exit_code != ExitCode.INCOMPLETE:
        raise typer.Exit(check.exit_code)
    unknown = [bounded.why for bounded in check.bounds if bounded.state == "unknown"]
    if unknown:
        raise IncompleteError(
            f"a bound cannot be checked: {unknown[0]}", "measure that number, or drop the bound"
        )
    _require_complete(report)


def exit_on_comparison(comparison: Comparison, gate: GateOptions) -> None:
    """Exit 1 where a difference or a new finding reaches `fail_on`; 4 for an incomplete one."""
    if gate.fail_on != "never":
        failing = SEVERITIES[SEVERITIES.index(gate.fail_on) :]
        if comparison.changed_severities.intersection(failing):
            raise typer.Exit(ExitCode.GATE_FAILED)
    if gate.require_complete and (comparison.note or comparison.skipped_rules):
        reason = comparison.note or comparison.skipped_rules[0].why
        raise IncompleteError(
            f"the comparison is incomplete ({reason})", "give targets that run on the same inputs"
        )


def _require_complete(report: Report) -> None:
    missing = missing_evidence(report)
    if missing:
        raise IncompleteError(
            f"the evidence is incomplete ({missing[0]})",
            f"{len(missing)} in all, listed in the report: measure them, or --ignore their rules",
        )
