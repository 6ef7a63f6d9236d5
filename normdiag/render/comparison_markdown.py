"""A comparison as Markdown, for a pull request or a job summary."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console

from normdiag.render.comparison import BASES, shown
from normdiag.render.interface import Options
from normdiag.render.markdown import code, words
from normdiag.render.units import number
from normdiag.report.compare.comparison import Comparison


def render(comparison: Comparison, console: Console, options: Options) -> None:
    """Write the outcome, the differences, the changed findings; the stream to unfold."""
    lines = (
        *_head(comparison),
        *_differences(comparison),
        *_changes(comparison),
        *_stream(comparison, options),
    )
    console.file.writelines(f"{line}\n" for line in lines)


def _head(comparison: Comparison) -> Iterator[str]:
    yield f"## {code(comparison.a.target)} and {code(comparison.b.target)}"
    yield ""
    yield f"**{words(comparison.headline)}**"
    yield ""
    for name, subject in (("A", comparison.a), ("B", comparison.b)):
        kind = f"{subject.class_ or ''} {subject.dtype or ''}".strip()
        yield f"* {name}: {code(subject.target)} {words(kind)}"
    yield f"* compared: {words(BASES[comparison.basis])}"
    if comparison.note is not None:
        yield f"* note: {words(comparison.note)}"
    yield ""


def _differences(comparison: Comparison) -> Iterator[str]:
    if not comparison.differences:
        return
    yield "| | kind | difference |"
    yield "|---|---|---|"
    for each in comparison.differences:
        yield f"| {each.severity} | {each.kind} | {words(each.message)} |"
    yield ""


def _changes(comparison: Comparison) -> Iterator[str]:
    for change in comparison.changes:
        finding = change.finding
        name = f"{code(finding.code)} {words(finding.name)}"
        yield f"* {change.state} {finding.severity}: {name}: {words(finding.message)}"
    if comparison.changes:
        yield ""


def _stream(comparison: Comparison, options: Options) -> Iterator[str]:
    stream, part = comparison.stream, comparison.parting
    if not stream:
        return
    yield "<details><summary>Relative error of the stream</summary>"
    yield ""
    yield "| add | receives | branch | sum | rounding explains |"
    yield "|---|--:|--:|--:|--:|"
    for i in shown(stream, part.a if part else None, whole=options.all_rows):
        site = stream[i]
        errors = (site.skip.median, site.branch.median, site.out.median, site.tolerance)
        yield f"| {code(site.a)} | {' | '.join(map(number, errors))} |"
    yield ""
    yield "</details>"
