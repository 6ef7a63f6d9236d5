"""JUnit XML: a test suite per target, a test case per rule, per bound and for complete evidence.

Names of test cases hold no numbers, so a service that compares runs recognises them.
"""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree import ElementTree as xml

from rich.console import Console

from normdiag.findings import Finding
from normdiag.render.escape import escape_in_full, escape_text
from normdiag.render.interface import Options
from normdiag.render.truncated_lines import truncate_lines
from normdiag.render.verdict import pair_with_statuses
from normdiag.report.check import FindingStatus
from normdiag.report.report import Report
from normdiag.report.series import Series, SeriesEntry

_SHOWN = 20


def write_report(report: Report, console: Console, options: Options) -> None:
    """Write one test suite."""
    _write_suites(console, [_build_suite(report.subject.target, list(_build_cases(report)))])


def write_series(series: Series, console: Console, options: Options) -> None:
    """Write one test suite per target; one without a report is one error."""
    _write_suites(
        console,
        [_build_suite(entry.target, list(_build_entry_cases(entry))) for entry in series.reports],
    )


def _write_suites(console: Console, suites: list[xml.Element]) -> None:
    root = xml.Element("testsuites", {"name": "normdiag", **_count_totals(suites)})
    root.extend(suites)
    xml.indent(root)
    # ASCII alone: what the console's encoding does not have is written as a character reference.
    console.file.write(xml.tostring(root, "us-ascii", xml_declaration=True).decode("ascii") + "\n")


def _count_totals(suites: list[xml.Element]) -> dict[str, str]:
    kinds = ("tests", "failures", "errors", "skipped")
    return {kind: str(sum(int(suite.attrib[kind]) for suite in suites)) for kind in kinds}


def _build_suite(target: str, cases: list[xml.Element]) -> xml.Element:
    suite = xml.Element(
        "testsuite",
        name=escape_text(target),
        tests=str(len(cases)),
        failures=str(_count_having(cases, "failure")),
        errors=str(_count_having(cases, "error")),
        skipped=str(_count_having(cases, "skipped")),
    )
    for case in cases:
        case.set("classname", f"normdiag.{escape_text(target)}")
    suite.extend(cases)
    return suite


def _count_having(cases: list[xml.Element], tag: str) -> int:
    return sum(case.find(tag) is not None for case in cases)


def _build_entry_cases(entry: SeriesEntry) -> Iterator[xml.Element]:
    if entry.report is not None:
        yield from _build_cases(entry.report)
    elif entry.failure is not None:
        case = _build_case("report", "error", entry.failure.what)
        case[0].text = escape_in_full(entry.failure.hint or "")
        yield case


def _build_cases(report: Report) -> Iterator[xml.Element]:
    by_rule: dict[str, list[tuple[Finding, FindingStatus | None]]] = {}
    for finding, status in pair_with_statuses(report):
        by_rule.setdefault(finding.code, []).append((finding, status))
    rules = [_build_rule_case(code, pairs) for code, pairs in by_rule.items()]
    rules += [_build_case(code) for code in report.rules.passed]
    rules += [_build_case(skip.code, "skipped", skip.why) for skip in report.rules.skipped]
    yield from sorted(rules, key=lambda case: case.attrib["name"])
    if report.check is None:
        return
    for bound in report.check.bounds:
        tag = None if bound.state == "kept" else "failure"
        yield _build_case(f"{bound.bound} {bound.path}", tag, bound.why)
    if report.check.require_complete:
        missing = report.check.missing_evidence
        yield _build_case("complete evidence", "failure" if missing else None, "; ".join(missing))


def _build_rule_case(code: str, pairs: list[tuple[Finding, FindingStatus | None]]) -> xml.Element:
    """Return a failure where a finding fails the check; else the findings as output."""
    failing = [pair for pair in pairs if pair[1] is not None and pair[1].fails]
    if not failing:
        case = _build_case(code)
        xml.SubElement(case, "system-out").text = _format_findings(pairs)
        return case
    first = failing[0][0]
    case = _build_case(code, "failure", f"{first.name}: {first.message}")
    case[0].set("type", first.severity)
    case[0].text = _format_findings(failing)
    return case


def _format_findings(pairs: list[tuple[Finding, FindingStatus | None]]) -> str:
    lines = []
    for finding, status in pairs:
        state = f" ({status.why})" if status is not None and status.why else ""
        places = (f"at {escape_text(id)}" for id in finding.ids)
        lines.append(f"{finding.severity}: {escape_in_full(finding.message + state)}")
        lines += [f"  {place}" for place in truncate_lines(places, _SHOWN)]
        lines.append(f"  do: {escape_in_full(finding.advice)}")
    return "\n".join(lines)


def _build_case(name: str, tag: str | None = None, why: str = "") -> xml.Element:
    """Return a test case that passed, or with `tag` and the reason one that did not."""
    case = xml.Element("testcase", name=escape_text(name))
    if tag is not None:
        xml.SubElement(case, tag, message=escape_in_full(why))
    return case
