"""The verdict of a check: what failed it, compared with what, and what was ignored."""

from __future__ import annotations

from collections.abc import Iterator

from normdiag.render.elements import Element, Fact, FactList, Heading, Sentence, Style
from normdiag.render.escape import shorten_text
from normdiag.render.verdict import format_baseline_changes, format_headline, pair_with_statuses
from normdiag.report.check import Baseline, Check
from normdiag.report.report import Report

_STYLES: dict[str, Style] = {"kept": "plain", "broken": "alarm", "unknown": "caution"}


def section(report: Report, *, all_rows: bool) -> Iterator[Element]:
    """Yield the verdict and what it was concluded from; nothing where nothing was checked."""
    check = report.check
    if check is None:
        return
    yield Heading(title="Verdict", detail=format_headline(report), is_lead=True)
    yield from describe_grounds(report, check)


def describe_grounds(report: Report, check: Check) -> Iterator[Element]:
    """Yield what the verdict was concluded from besides findings: baseline, bounds, ignored."""
    if check.baseline is not None:
        yield from _describe_baseline(report, check, check.baseline)
    facts = [
        Fact(
            label="bound",
            lines=(f"{shorten_text(bound.why)}: {bound.state}",),
            style=_STYLES[bound.state],
        )
        for bound in check.bounds
    ]
    facts += [
        Fact(
            label="ignored",
            lines=(
                f"{shorten_text(rule.selector)}: {shorten_text(rule.reason) or 'no reason given'}",
            ),
        )
        for rule in check.ignored
    ]
    if facts:
        yield FactList(facts=tuple(facts))


def _describe_baseline(report: Report, check: Check, baseline: Baseline) -> Iterator[Element]:
    source = f"{shorten_text(baseline.path)} (of {shorten_text(baseline.target)})"
    facts = [Fact(label="baseline", lines=(f"{source}: {format_baseline_changes(check)}",))]
    for finding, status in pair_with_statuses(report):
        if status is not None:
            text = f"{finding.code} {finding.name}: {status.why}"
            style: Style = "strong" if status.fails else "plain"
            facts.append(Fact(label=status.state, lines=(shorten_text(text),), style=style))
    facts += [
        Fact(label="gone", lines=(shorten_text(f"{each.code} {each.name}"),))
        for each in baseline.gone
    ]
    yield FactList(facts=tuple(facts))
    if baseline.note is not None:
        yield Sentence(text=shorten_text(baseline.note), style="caution")
    yield Sentence(
        text="Both are judged by the current rules. Worse: a higher severity, one more site, or a "
        f"value past the old one by more than {baseline.margin:.0%}.",
        style="quiet",
    )
