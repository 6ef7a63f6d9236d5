"""The number of findings of each severity, in the words of `--fail-on`."""

from __future__ import annotations

from dataclasses import replace

import pytest

from normdiag.findings import Severity
from normdiag.render.severity import count_by_severity, format_severity_count
from tests.hostile import broken


@pytest.mark.parametrize(
    ("many", "severity", "said"),
    [(1, "error", "1 error"), (1200, "warning", "1,200 warnings"), (2, "info", "2 info")],
)
def test_info_has_no_plural(many: int, severity: Severity, said: str) -> None:
    assert format_severity_count(many, severity) == said


def test_a_kind_stands_before_the_word() -> None:
    assert format_severity_count(2, "error", "new or worse ") == "2 new or worse errors"
    assert format_severity_count(2, "info", "new or worse ") == "2 new or worse info"


def test_the_severest_come_first() -> None:
    finding = broken().findings[0]
    found = [replace(finding, severity=each) for each in ("info", "error", "info")]
    assert count_by_severity(found) == "1 error, 2 info"
    assert count_by_severity([]) == ""
