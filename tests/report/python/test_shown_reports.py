"""What Python shows of a report: at most ten lines, or a fragment in which all is escaped."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from hypothesis import HealthCheck, given, settings

from normdiag.findings import Finding
from normdiag.report.check import Check
from normdiag.report.report import Report
from tests import reports
from tests.evil import TEXTS
from tests.strategies import reports as any_report

FOUND = Finding(
    code="ND1",
    name="some-rule",
    severity="error",
    confidence="high",
    ids=("a.b", "c"),
    message="a message of one line " * 9,
    value=2.0,
    threshold=1.0,
    advice="do this",
)


def with_findings(report: Report, *findings: Finding) -> Report:
    return replace(report, findings=findings)


@pytest.mark.parametrize("build", [reports.llama, reports.bert, reports.weights_only])
@pytest.mark.parametrize("many", [0, 1, 2, 9])
def test_at_most_ten_lines(build, many: int) -> None:
    report = with_findings(build(), *[FOUND] * many)
    lines = repr(report).splitlines()
    assert len(lines) <= 10
    assert max(map(len, lines)) <= 130
    assert report.subject.target in lines[0]
    assert (f"{many} error" in lines[0]) == (many > 0)
    assert ("and 7 more findings" in repr(report)) == (many == 9)


def test_many_stacks_are_cut() -> None:
    report = reports.encoder_decoder()
    stacks = report.architecture.stacks
    many = (*stacks, replace(stacks[0], id="third"), replace(stacks[0], id="fourth"))
    report = replace(report, architecture=replace(report.architecture, stacks=many))
    assert "and 2 more stacks" in repr(with_findings(report, *[FOUND] * 5))
    assert len(repr(with_findings(report, *[FOUND] * 5)).splitlines()) <= 10


def test_the_verdict_is_the_worst_severity_or_the_outcome_of_the_check() -> None:
    report = reports.llama()
    mild = replace(FOUND, severity="info")
    assert with_findings(report).verdict == "no findings"
    assert with_findings(report, mild).verdict == "info"
    assert with_findings(report, mild, FOUND).verdict == "error"
    outcomes = {0: "passed", 1: "failed", 4: "incomplete"}
    for code, word in outcomes.items():
        check = Check(exit_code=code, fail_on="error", require_complete=False, finding_statuses=())
        checked = replace(with_findings(report, mild), check=check)
        assert checked.verdict == word
        assert repr(checked).splitlines()[0].endswith(f"{word}, 1 info")


class Texts(HTMLParser):
    """The tags and the text of a fragment."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.text = ""

    def handle_starttag(self, tag: str, attrs) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.text += data


def read_fragment(report: Report) -> Texts:
    texts = Texts()
    texts.feed(report._repr_html_())
    return texts


PLAIN_TAGS = {"div", "p", "b", "br", "table", "caption", "thead", "tbody", "tr", "th", "td"}


def test_the_fragment_has_verdict_findings_and_stacks() -> None:
    found = read_fragment(reports.llama())
    assert found.tags == PLAIN_TAGS
    for text in ("org/small: 1 warning", "ND304 massive-activation", "x + F(rms(x))", "geometric"):
        assert text in found.text


@pytest.mark.parametrize("evil", [*TEXTS, "</td><script>x</script>", '<img src="x" onerror="y">'])
def test_text_from_outside_stays_text(evil: str) -> None:
    report = reports.llama(3)
    stack = replace(report.architecture.stacks[0], id=evil, drawing=evil)
    report = replace(
        with_findings(report, replace(FOUND, message=evil, ids=(evil,))),
        subject=replace(report.subject, target=evil),
        architecture=replace(report.architecture, stacks=(stack,)),
    )
    found = read_fragment(report)
    assert found.tags <= PLAIN_TAGS
    assert found.attributes <= {"scope"}
    for shown in (repr(report), repr(report.stacks), repr(report.stacks[0]), found.text):
        assert all(char.isprintable() or char == "\n" for char in shown)


@given(any_report())
@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
def test_any_report_is_shown_in_ten_lines(report: Report) -> None:
    """Also one that states a billion layers."""
    assert len(repr(report).splitlines()) <= 10
    assert report._repr_html_().startswith("<div>")
    assert all(isinstance(value, float) for value in report.scalars().values())


def test_a_report_is_still_copied_pickled_and_compared() -> None:
    report = reports.llama(3)
    assert copy.deepcopy(report) == report == pickle.loads(pickle.dumps(report))
