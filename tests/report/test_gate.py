"""A finding fails the gate at its severity and at milder settings."""

from __future__ import annotations

from dataclasses import replace

import pytest

from normdiag.errors import ExitCode
from normdiag.report.gate import reached
from tests.reports import bert, llama


@pytest.mark.parametrize(
    ("severity", "failing"),
    [
        ("error", {"error", "warning", "info"}),
        ("warning", {"warning", "info"}),
        ("info", {"info"}),
    ],
)
def test_a_finding_fails_at_its_severity_and_below(severity, failing):
    (finding,) = llama().findings
    report = replace(llama(), findings=(replace(finding, severity=severity),))
    for fail_on in ("error", "warning", "info", "never"):
        expected = ExitCode.GATE_FAILED if fail_on in failing else ExitCode.PASSED
        assert reached(report, fail_on) is expected


def test_without_findings_nothing_fails():
    assert reached(bert(), "info") is ExitCode.PASSED
