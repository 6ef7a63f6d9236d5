"""JUnit XML: a test suite per target, a test case per rule, per bound and for complete evidence.

Names of test cases hold no numbers, so a service that compares runs recognises them.
"""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree import ElementTree as xml

from rich.console import Console

from normdiag.findings import Finding
from normdiag.render.escape import spelled, visible
from normdiag.render.few import few
from normdiag.render.interface import Options
from normdiag.render.verdict import standing_of
from normdiag.report.check import Standing
from normdiag.report.report import Report
from normdiag.report.series import Entry, Series

_PLACES = 20


def render(report: Report, console: Console, options: Options) -> None:
    """Write one test suite."""
    _write(console, [_suite(report.subject.target, list(_cases(report)))])


def render_series(series: Series, console: Console, options: Options) -> None:
    """Write one test suite per target; one without a report is one error."""
    _write(console, [_suite(entry.target, list(_of_entry(entry))) for entry in series.reports])


def _write(console: Console, suites: list[xml.Element]) -> None:
    root = xml.Element("testsuites", {"name": "normdiag", **_totals(suites)})
    root.extend(suites)
    xml.indent(root)
    # ASCII alone: what the console's encoding does not have is written as a character reference.
    console.file.write(xml.tostring(root, "us-ascii", xml_declaration=True).decode("ascii") + "\n")


def _totals(suites: list[xml.Element]) -> dict[str, str]:
    kinds = ("tests", "failures", "errors", "skipped")
    return {kind: str(sum(int(suite.attrib[kind]) for suite in suites)) for kind in kinds}


def _suite(target: str, cases: list[xml.Element]) -> xml.Element:
    suite = xml.Element(
        "testsuite",
        name=visible(target),
        tests=str(len(cases)),
        failures=str(_having(cases, "failure")),
        errors=str(_having(cases, "error")),
        skipped=str(_having(cases, "skipped")),
    )
    for case in cases:
        case.set("classname", f"normdiag.{visible(target)}")
    suite.extend(cases)
    return suite


def _having(cases: list[xml.Element], tag: str) -> int:
    return sum(case.find(tag) is not None for case in cases)


def _of_entry(entry: Entry) -> Iterator[xml.Element]:
    if entry.report is not None:
        yield from _cases(entry.report)
    elif entry.failure is not None:
        case = _case("report", "error", entry.failure.what)
        case[0].text = spelled(entry.failure.hint or "")
        yield case


def _cases(report: Report) -> Iterator[xml.Element]:
    by_rule: dict[str, list[tuple[Finding, Standing | None]]] = {}
    for finding, standing in standing_of(report):
        by_rule.setdefault(finding.code, []).append((finding, standing))
    rules = [_of_rule(code, found) for code, found in by_rule.items()]
    rules += [_case(code) for code in report.rules.passed]
    rules += [_case(skip.code, "skipped", skip.why) for skip in report.rules.skipped]
    yield from sorted(rules, key=lambda case: case.attrib["name"])
    if report.check is None:
        return
    for bounded in report.check.bounds:
        tag = None if bounded.state == "kept" else "failure"
        yield _case(f"{bounded.bound} {bounded.path}", tag, bounded.why)
    if report.check.require_complete:
        lacking = report.check.lacking
        yield _case("complete evidence", "failure" if lacking else None, "; ".join(lacking))


def _of_rule(code: str, found: list[tuple[Finding, Standing | None]]) -> xml.Element:
    """A failure where a finding fails the check; else what was found is told as output."""
    failing = [pair for pair in found if pair[1] is not None and pair[1].fails]
    if not failing:
        case = _case(code)
        xml.SubElement(case, "system-out").text = _told(found)
        return case
    first = failing[0][0]
    case = _case(code, "failure", f"{first.name}: {first.message}")
    case[0].set("type", first.severity)
    case[0].text = _told(failing)
    return case


def _told(found: list[tuple[Finding, Standing | None]]) -> str:
    lines = []
    for finding, standing in found:
        state = f" ({standing.why})" if standing is not None and standing.why else ""
        places = (f"at {visible(id)}" for id in finding.ids)
        lines.append(f"{finding.severity}: {spelled(finding.message + state)}")
        lines += [f"  {place}" for place in few(places, _PLACES)]
        lines.append(f"  do: {spelled(finding.advice)}")
    return "\n".join(lines)


def _case(name: str, tag: str | None = None, why: str = "") -> xml.Element:
    """A test case that passed, or with `tag` and the reason one that did not."""
    case = xml.Element("testcase", name=visible(name))
    if tag is not None:
        xml.SubElement(case, tag, message=spelled(why))
    return case
