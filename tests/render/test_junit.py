"""JUnit XML that any parser reads, with test cases that keep their names."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree as xml

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from normdiag.report.bounds import Bound
from normdiag.report.gate import Gate, check_report
from normdiag.report.paths import parse_path
from normdiag.report.series import Series, SeriesEntry
from tests import evil
from tests.hostile import broken
from tests.reports import bert, encoder_decoder, llama, weights_only
from tests.written import render_text, written_series


def suites(text):
    root = xml.fromstring(text.encode())
    assert root.tag == "testsuites"
    for suite in (root, *root):
        for kind, tag in (
            ("tests", "testcase"),
            ("failures", "failure"),
            ("errors", "error"),
            ("skipped", "skipped"),
        ):
            assert int(suite.attrib[kind]) == len(suite.findall(f".//{tag}"))
    return list(root)


def cases(report):
    (suite,) = suites(render_text(report, format="junit"))
    return {case.attrib["name"]: case for case in suite}


@pytest.mark.parametrize("make", [llama, bert, encoder_decoder, weights_only, broken])
def test_there_is_one_case_per_rule(make):
    report = make()
    codes = [finding.code for finding in report.findings] + list(report.rules.passed)
    codes += [skip.code for skip in report.rules.skipped]
    assert list(cases(report)) == sorted(set(codes))


@pytest.mark.parametrize("text", evil.TEXTS)
def test_no_text_breaks_it(text):
    (suite,) = suites(render_text(evil.report(text), format="junit"))
    assert len(suite) == 3 + 3 + 1  # one code for all findings, passed, skipped; bounds; complete
    assert not {case.tag for case in suite.iter()} - {
        "testsuite",
        "testcase",
        "failure",
        "skipped",
        "system-out",
    }
    assert len(suites(written_series(evil.series(text), "junit"))) == 3


@given(st.text(st.characters(codec=None), max_size=20))
@settings(max_examples=25, deadline=None)
def test_any_text_is_legal(text):
    suites(render_text(evil.report(text), format="junit"))


def test_what_fails_the_check_is_a_failure_and_what_does_not_is_told():
    loose, strict = (
        cases(check_report(llama(), Gate(fail_on=way))) for way in ("error", "warning")
    )
    assert loose.keys() == strict.keys()
    assert loose["ND304"].find("failure") is None
    assert "812.5" in loose["ND304"].find("system-out").text
    failure = strict["ND304"].find("failure")
    assert failure.attrib["type"] == "warning"
    assert failure.attrib["message"].startswith("massive-activation: one value is 812.5")
    assert "at model.layers.4/add#1" in failure.text
    known = cases(check_report(llama(), Gate(fail_on="warning"), llama(), "before.json"))
    assert known["ND304"].find("failure") is None


def test_bounds_and_missing_evidence_are_cases():
    gate = Gate(
        require_complete=True,
        bounds=(
            Bound(parse_path("measurements.growth.total"), "max", 1e9),
            Bound(parse_path("measurements.growth.total"), "min", 1e9),
            Bound(parse_path("measurements.gradients.global_norm"), "max", 1.0),
        ),
    )
    found = cases(check_report(bert(), gate))
    failed = {name for name, case in found.items() if case.find("failure") is not None}
    assert failed == {
        "min measurements.growth.total",
        "max measurements.gradients.global_norm",
        "complete evidence",
    }
    assert "max measurements.growth.total" in found
    assert cases(check_report(llama(), replace(gate, bounds=())))["complete evidence"].text is None


def test_a_target_without_a_report_is_an_error():
    first, second, third = suites(written_series(evil.series("a"), "junit"))
    assert [suite.attrib["errors"] for suite in (first, second, third)] == ["0", "1", "0"]
    assert second.find("testcase/error").attrib["message"] == "a"
    alone = Series(exit_code=0, reports=(SeriesEntry(target="b", report=llama()),))
    (suite,) = suites(written_series(alone, "junit"))
    assert suite.attrib["name"] == "b"
