from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.cells import cell_len
from rich.console import Console

from normdiag.findings import Finding, Severity
from normdiag.render.formats import FORMATS
from normdiag.render.interface import Options
from normdiag.render.text.clauses import fit_clauses
from normdiag.report.check import Check
from normdiag.report.report import Report
from tests.hostile import broken
from tests.reports import llama, weights_only

MOST = 23
"""Lines of a terminal of 24 without the prompt."""


def write_screen(report: Report, width: int = 80) -> str:
    buffer = io.StringIO()
    console = Console(file=buffer, width=width)
    FORMATS["inspect"]["text"](report, console, Options(first_screen=True))
    return buffer.getvalue()


def make_findings(many: int, severity: Severity = "warning") -> tuple[Finding, ...]:
    return tuple(
        Finding(
            code=f"ND40{k}",
            name="geometric-growth",
            severity=severity,
            confidence="high",
            ids=(f"model.layers.{k}.a_rather_long_name_of_a_module/add#0", "model.norm"),
            message="",
            value=3.5,
            threshold=1.5,
            advice="",
        )
        for k in range(many)
    )


@pytest.mark.parametrize("make", [llama, broken, weights_only])
@pytest.mark.parametrize("width", [80, 120, 160])
def test_it_is_one_screen(make, width, golden):
    text = write_screen(make(), width)
    assert len(text.splitlines()) <= MOST
    assert max(map(cell_len, text.splitlines())) <= width
    golden(f"screen-{make.__name__}-{width}.txt", text)


@pytest.mark.parametrize("many", [0, 1, 4, 5, 40])
def test_findings_are_in_the_first_ten_lines_and_counted_whole(many):
    lines = write_screen(replace(llama(), findings=make_findings(many))).splitlines()
    assert len(lines) <= MOST
    start = lines.index(next(line for line in lines if line.startswith("Findings")))
    shown = [line for line in lines[start + 1 : 12] if line.startswith("  warning  ND4")]
    assert start < 6 and len(shown) == (many if many <= 4 else 3)
    assert ("  more     37 warnings: see --full" in lines) == (many == 40)


def test_the_severest_findings_come_first():
    findings = (*make_findings(5, "info"), *make_findings(1, "error"))
    lines = write_screen(replace(llama(), findings=findings)).splitlines()
    first = next(line for line in lines if "ND40" in line)
    assert first.startswith("  error  ND400")


def test_many_stacks_and_findings_still_fit():
    report = llama()
    (stack,) = report.architecture.stacks
    stacks = tuple(replace(stack, id=f"towers.{k}") for k in range(9))
    crowded = replace(
        report,
        architecture=replace(report.architecture, stacks=stacks),
        findings=make_findings(9),
    )
    lines = write_screen(crowded).splitlines()
    assert len(lines) <= MOST
    assert any(line.split() == ["more", "7", "stacks"] for line in lines)


def test_a_passed_check_is_one_line():
    passed = replace(
        llama(),
        check=Check(exit_code=0, fail_on="never", require_complete=False, finding_statuses=()),
    )
    assert write_screen(passed) == "org/small  passed: no finding fails it\n"


@pytest.mark.parametrize(
    ("width", "most", "lines"),
    [
        (30, 1, ["one; two"]),
        (8, 1, ["one; two"]),
        (7, 1, ["one"]),
        (7, 2, ["one;", "two"]),
        (3, 2, ["one;", "two"]),
        (2, 1, ["one"]),
    ],
)
def test_clauses_are_written_whole_or_not(width, most, lines):
    assert fit_clauses(["one", "two"], width, most) == lines


def test_a_line_that_another_one_follows_has_room_for_its_semicolon():
    """Eight columns hold "one; two" and not its semicolon: "two" stands on the next line then."""
    assert fit_clauses(["one", "two", "three"], 8, 2) == ["one;", "two"]
    assert fit_clauses(["one", "two", "three"], 9, 2) == ["one; two;", "three"]
