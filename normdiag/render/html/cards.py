"""Findings and differences as cards, the severest first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from normdiag.findings import SEVERITIES, Finding
from normdiag.number_text import format_value
from normdiag.render.escape import shorten_message, shorten_text
from normdiag.render.html.architecture_figure import is_drawn
from normdiag.render.html.document import Card, Drawing, Figure
from normdiag.render.html.figures import find_figure
from normdiag.render.verdict import pair_with_statuses
from normdiag.report.check import FindingStatus
from normdiag.report.compare.comparison import Comparison, Difference
from normdiag.report.report import Report

_SITES = 6
_STREAM_KINDS = ("stream", "stream-factor", "non-finite", "output")
"""Kinds of differences that the curves of the comparison show."""


def list_cards(
    report: Report, figures: Sequence[Figure], drawing: Drawing | None = None
) -> tuple[Card, ...]:
    """Return a card per finding, those that fail the check first."""
    pairs = sorted(
        pair_with_statuses(report),
        key=lambda pair: (
            not (pair[1] is not None and pair[1].fails),
            -SEVERITIES.index(pair[0].severity),
        ),
    )
    return tuple(
        make_card(finding, figures, drawing=drawing, state=_describe_state(status))
        for finding, status in pairs
    )


def list_compared_cards(comparison: Comparison, figures: Sequence[Figure]) -> tuple[Card, ...]:
    """Return a card per difference, then one per finding that is new, worse or gone."""
    return (
        *(_make_difference(each, figures) for each in comparison.differences),
        *(
            make_card(
                change.finding,
                (),
                state=change.state,
                mark="gone" if change.state == "gone" else "",
                facts=(("why", shorten_text(change.why)),) if change.why else (),
            )
            for change in comparison.changes
        ),
    )


def make_card(
    finding: Finding,
    figures: Sequence[Figure],
    *,
    drawing: Drawing | None = None,
    state: str = "",
    mark: str = "",
    facts: Iterable[tuple[str, str]] = (),
) -> Card:
    """Return the card of one finding, linked to the figure or the drawing that shows it."""
    figure: Figure | Drawing | None = find_figure(finding.code, figures)
    if figure is None and is_drawn(finding.code):
        figure = drawing
    return Card(
        mark=mark or finding.severity,
        title=f"{finding.code} {finding.name}",
        state=state,
        message=shorten_message(finding.message),
        facts=(*_list_facts(finding), *facts),
        sites=tuple(map(shorten_text, finding.ids[:_SITES])),
        more_sites=max(0, len(finding.ids) - _SITES),
        advice=shorten_message(finding.advice),
        chart=None if figure is None else figure.name,
        chart_title="" if figure is None else figure.title,
    )


def _list_facts(finding: Finding) -> Iterator[tuple[str, str]]:
    if finding.value is not None:
        yield "value", format_value(finding.value)
    if finding.threshold is not None:
        yield "threshold", format_value(finding.threshold)
    yield "confidence", finding.confidence
    if finding.explained_by is not None:
        cause = finding.explained_by
        place = f" at {shorten_text(cause.id)}" if cause.id else ""
        yield "explained by", f"{shorten_text(cause.code)}{place}"


def _describe_state(status: FindingStatus | None) -> str:
    if status is None:
        return ""
    return status.state if status.why else "fails" if status.fails else ""


def _make_difference(difference: Difference, figures: Sequence[Figure]) -> Card:
    sites = difference.a or difference.b
    facts = [
        (label, format_value(value))
        for label, value in (
            ("largest difference", difference.value),
            ("rounding explains", difference.tolerance),
        )
        if value is not None
    ]
    shows = difference.kind in _STREAM_KINDS
    figure = next((each for each in figures if shows and each.name == "stream_error"), None)
    return Card(
        mark=difference.severity,
        title=f"difference: {difference.kind}",
        message=shorten_message(difference.message),
        facts=tuple(facts),
        sites=tuple(map(shorten_text, sites[:_SITES])),
        more_sites=max(0, len(sites) - _SITES),
        chart=None if figure is None else figure.name,
        chart_title="" if figure is None else figure.title,
    )
