"""The verdict of a check: what failed it, beside what, and what was left out."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from normdiag.render.escape import visible
from normdiag.render.page import QUIET, Page, facts, heading, prose
from normdiag.render.verdict import beside_baseline, headline, standing_of
from normdiag.report.check import Baseline, Bounded, Check
from normdiag.report.report import Report

_STYLES = {"kept": "", "broken": "bold red", "unknown": "bold yellow"}


def section(report: Report, page: Page) -> Iterator[RenderableType]:
    """Yield the verdict and what it was concluded from; nothing where nothing was checked."""
    check = report.check
    if check is None:
        return
    yield heading("Verdict", headline(report))
    if check.baseline is not None:
        yield from _baseline(report, check, check.baseline)
    rows = [("bound", _bound(bounded)) for bounded in check.bounds]
    rows += [
        ("ignored", Text(f"{visible(each.selector)}: {visible(each.reason) or 'no reason given'}"))
        for each in check.ignored
    ]
    if rows:
        yield facts(rows)


def _baseline(report: Report, check: Check, baseline: Baseline) -> Iterator[RenderableType]:
    told = f"{visible(baseline.path)} (of {visible(baseline.target)}): {beside_baseline(check)}"
    rows: list[tuple[str, str | Text]] = [("baseline", told)]
    for finding, standing in standing_of(report):
        if standing is not None:
            said = f"{finding.code} {finding.name}: {standing.why}"
            rows.append((standing.state, Text(visible(said), "bold" if standing.fails else "")))
    rows += [("gone", visible(f"{each.code} {each.name}")) for each in baseline.gone]
    yield facts(rows)
    if baseline.note is not None:
        yield prose(visible(baseline.note), "bold yellow")
    yield prose(
        "Judged by the rules of now; worse is a higher severity, a site more, or a value past the "
        f"old one by more than {baseline.margin:.0%}.",
        QUIET,
    )


def _bound(bounded: Bounded) -> Text:
    return Text(f"{visible(bounded.why)}: {bounded.state}", _STYLES[bounded.state])
