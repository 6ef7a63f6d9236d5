"""The gate: does a finding reach the severity at which the user wants a failure?"""

from __future__ import annotations

from typing import Literal

from normdiag.errors import ExitCode
from normdiag.findings import SEVERITIES
from normdiag.report.report import Report

FailOn = Literal["error", "warning", "info", "never"]


def reached(report: Report, fail_on: FailOn) -> ExitCode:
    """Return GATE_FAILED where a finding is at least as severe as `fail_on`, else PASSED."""
    if fail_on == "never":
        return ExitCode.PASSED
    failing = SEVERITIES[SEVERITIES.index(fail_on) :]
    if any(finding.severity in failing for finding in report.findings):
        return ExitCode.GATE_FAILED
    return ExitCode.PASSED
