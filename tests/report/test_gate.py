"""The gate: findings by severity and beside a baseline, bounds, missing evidence."""

from __future__ import annotations

from dataclasses import replace

import pytest

from normdiag.errors import ExitCode
from normdiag.findings import SkippedRule
from normdiag.report.bounds import Bound
from normdiag.report.gate import Gate, check_report, gate_exit_code
from normdiag.report.paths import parse_path
from tests.hostile import broken
from tests.reports import bert, llama

SEVERITIES = [
    ("error", {"error", "warning", "info"}),
    ("warning", {"warning", "info"}),
    ("info", {"info"}),
]


def judge_severity(severity):
    (finding,) = llama().findings
    return replace(llama(), findings=(replace(finding, severity=severity),))


@pytest.mark.parametrize(("severity", "failing"), SEVERITIES)
def test_a_finding_fails_at_its_severity_and_below(severity, failing):
    report = judge_severity(severity)
    for fail_on in ("error", "warning", "info", "never"):
        expected = ExitCode.GATE_FAILED if fail_on in failing else ExitCode.PASSED
        assert gate_exit_code(report, fail_on) is expected
        check = check_report(report, Gate(fail_on=fail_on)).check
        assert check.exit_code == expected
        assert [standing.fails for standing in check.finding_statuses] == [fail_on in failing]


def test_without_findings_nothing_fails():
    assert gate_exit_code(bert(), "info") is ExitCode.PASSED
    assert check_report(bert(), Gate(fail_on="info")).check.exit_code == ExitCode.PASSED


def test_what_the_baseline_has_does_not_fail_and_what_is_worse_does():
    report, gate = llama(), Gate(fail_on="warning")
    known = check_report(report, gate, report, "old.json").check
    assert known.exit_code == ExitCode.PASSED
    assert (known.baseline.path, known.baseline.gone, known.baseline.note) == ("old.json", (), None)
    milder = replace(report, findings=(replace(report.findings[0], value=2000.0),))
    worse = check_report(report, gate, milder).check
    assert worse.exit_code == ExitCode.GATE_FAILED
    assert [standing.state for standing in worse.finding_statuses] == ["worse"]
    lenient = check_report(report, replace(gate, margin=1000.0), milder).check
    assert lenient.exit_code == ExitCode.PASSED
    better = check_report(milder, gate, report).check
    assert better.exit_code == ExitCode.PASSED
    gone = check_report(replace(report, findings=()), gate, report).check
    assert gone.baseline.gone == report.findings


def test_what_makes_the_comparison_doubtful_is_told():
    def note(before):
        return check_report(llama(), Gate(), before, "x").check.baseline.note

    assert note(llama()) is None
    assert "(another model?)" in note(bert())
    half = replace(llama(), subject=replace(llama().subject, dtype="float16"))
    assert (
        note(half)
        == "limited comparability: the baseline was run in float16, this report in float32"
    )
    of_now = replace(llama().subject.probe, digest="1")
    report = replace(llama(), subject=replace(llama().subject, probe=of_now))
    for probe, other in (({"tokens": 9}, True), ({"digest": "2"}, True), ({"digest": None}, False)):
        subject = replace(llama().subject, probe=replace(of_now, **probe))
        check = check_report(report, Gate(), replace(llama(), subject=subject), "x").check
        said = "limited comparability: the baseline was run on other inputs" if other else None
        assert check.baseline.note == said


def test_a_baseline_that_could_not_be_judged_is_told():
    (finding,) = llama().findings
    skip = SkippedRule(code=finding.code, name=finding.name, why="nothing was run")
    before = replace(llama(), findings=(), rules=replace(llama().rules, skipped=(skip,)))
    (standing,) = check_report(llama(), Gate(), before).check.finding_statuses
    assert standing.state == "new"
    assert "this rule was skipped for the baseline: nothing was run" in standing.why


@pytest.mark.parametrize(
    ("path", "limit", "complete", "code"),
    [
        ("measurements.growth.total", 1e9, False, 0),
        ("measurements.growth.total", 1.0, False, 1),
        ("measurements.gradients.global_norm", 1e9, False, 4),  # was not measured: no pass
        ("measurements.growth.total_over_init", 1.0, False, 1),
        ("measurements.stream.token_cosine", 1e9, True, 0),
    ],
)
def test_bounds_decide_whatever_the_findings_are(path, limit, complete, code):
    gate = Gate(
        fail_on="never", require_complete=complete, bounds=(Bound(parse_path(path), "max", limit),)
    )
    assert check_report(llama(), gate).check.exit_code == code


def test_a_bound_that_was_measured_in_part_is_incomplete_only_where_all_is_asked_for():
    bound = Bound(parse_path("measurements.stream.token_cosine"), "max", 1e9)
    report = replace(broken(), rules=llama().rules, coverage=llama().coverage, findings=())
    for complete, code in ((False, ExitCode.PASSED), (True, ExitCode.INCOMPLETE)):
        gate = Gate(require_complete=complete, bounds=(bound,))
        assert check_report(report, gate).check.exit_code == code


def test_missing_evidence_counts_where_it_is_asked_for_and_after_a_finding():
    assert check_report(bert(), Gate()).check.exit_code == ExitCode.PASSED
    strict = check_report(bert(), Gate(require_complete=True)).check
    assert strict.exit_code == ExitCode.INCOMPLETE
    assert strict.missing_evidence == ("ND401: needs 8 layers, has 3",)
    assert (
        check_report(broken(), Gate(require_complete=True)).check.exit_code == ExitCode.GATE_FAILED
    )
