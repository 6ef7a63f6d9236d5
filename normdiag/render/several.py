"""Several targets in one table, as text and as CSV; below the text what failed each."""

from __future__ import annotations

import csv
from collections.abc import Iterator

from rich.console import Console, Group, RenderableType
from rich.text import Text

from normdiag.findings import SEVERITIES
from normdiag.render.course import NUMBERS, rows
from normdiag.render.csv import cell
from normdiag.render.escape import spelled, visible
from normdiag.render.interface import Options
from normdiag.render.page import QUIET, Column, facts, heading, prose, table
from normdiag.render.plain import Plain
from normdiag.render.units import UNKNOWN, number, percent
from normdiag.render.verdict import entry_headline, standing_of
from normdiag.report.report import Report
from normdiag.report.series import Entry, Series

_LEGEND = (
    "growth: of the stream, from the first add to the last. kappa: by how much a norm stretches "
    "some directions more than others. eps share: how much of what a norm divides by is epsilon. "
    "Each is the largest of the target. moved: findings that came and went since the row above."
)


def render_text(series: Series, console: Console, options: Options) -> None:
    """Write the table of targets, then the verdict of each and the findings that made it."""
    parts: list[RenderableType] = [Text(f"{len(series.reports)} targets", "bold"), _table(series)]
    parts.append(prose(_LEGEND, QUIET))
    for entry in series.reports:
        parts.extend(_entry(entry, options))
    console.print(Plain(Group(*parts)))


def render_csv(series: Series, console: Console, options: Options) -> None:
    """Write the same table, the numbers in full."""
    writer = csv.writer(console.file, lineterminator="\n")
    names = [name.replace(" ", "_") for name in NUMBERS]
    writer.writerow(["target", *names, "findings", "moved", "verdict"])
    for row in rows(series.reports):
        cells = [row.target, *row.numbers.values(), row.findings, row.moved, row.verdict]
        writer.writerow([None if each == UNKNOWN else cell(each) for each in cells])


def _table(series: Series) -> RenderableType:
    columns = [
        Column(title="target", right=False),
        *(Column(title=name) for name in NUMBERS),
        Column(title="findings", right=False),
        Column(title="moved", right=False),
        Column(title="verdict", right=False),
    ]
    return table(
        columns,
        (
            [
                Text(row.target),
                *(Text(cell) for cell in figures(row.numbers)),
                Text(row.findings),
                Text(row.moved),
                Text(row.verdict),
            ]
            for row in rows(series.reports)
        ),
    )


def figures(numbers: dict[str, float | None]) -> Iterator[str]:
    """Yield the numbers of a row as people read them."""
    for name, value in numbers.items():
        yield percent(value) if name == "eps share" else number(value)


def _entry(entry: Entry, options: Options) -> Iterator[RenderableType]:
    yield heading(visible(entry.target), entry_headline(entry))
    if entry.failure is not None and entry.failure.hint is not None:
        yield prose(f"hint: {spelled(entry.failure.hint)}")
    if entry.report is not None:
        yield from _findings(entry.report, options)


def _findings(report: Report, options: Options) -> Iterator[RenderableType]:
    """The findings that failed the check, or all; the severest first."""
    pairs = [
        (finding, standing)
        for finding, standing in standing_of(report)
        if options.all_rows or (standing is not None and standing.fails)
    ]
    pairs.sort(key=lambda pair: -SEVERITIES.index(pair[0].severity))
    told = [
        (
            finding.severity,
            spelled(f"{finding.code} {finding.name}: {finding.message}")
            + (f" ({visible(standing.why)})" if standing is not None and standing.why else ""),
        )
        for finding, standing in pairs
    ]
    if told:
        yield facts(told)
