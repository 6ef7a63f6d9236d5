"""Two models beside each other: what differs, where their streams part, which findings changed."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console, Group, RenderableType
from rich.text import Text

from normdiag.evidence.subject import Subject
from normdiag.render.axis import Axis
from normdiag.render.escape import folded, spelled, visible
from normdiag.render.few import named
from normdiag.render.interface import Options
from normdiag.render.page import QUIET, Column, Page, facts, heading, prose, room, table
from normdiag.render.plain import Plain
from normdiag.render.severity import STYLES
from normdiag.render.units import count, number
from normdiag.report import v1
from normdiag.report.compare.comparison import Comparison, SiteApart

BASES = {
    "values": "values on the same inputs, token by token",
    "summaries": "lengths over all tokens, as the reports hold them: what turns a stream and does "
    "not stretch it is not seen",
    "structure": "structure, norms and weights alone",
}
_ENDS = 2
"""Adds that are shown at either end of the stream and on either side of where it parts."""
_PLACES = 4
"""Sites that are listed of those where a difference is the same."""
_LONGEST = 1500
"""Characters of a message that is shown whole."""
_SHOWN = 12
"""A stream of so many adds is shown whole."""


def render_text(comparison: Comparison, console: Console, options: Options) -> None:
    """Write the outcome first, then what it rests on."""
    page = Page(width=console.width, all_rows=options.all_rows)
    parts = (
        *_sides(comparison),
        *_differences(comparison, page),
        *_stream(comparison, page),
        *_changes(comparison),
    )
    console.print(Plain(Group(*parts)))


def render_json(comparison: Comparison, console: Console, options: Options) -> None:
    """Write the document whole."""
    console.file.write(v1.dumps(comparison))


def shown(stream: tuple[SiteApart, ...], parting: str | None, *, whole: bool) -> list[int]:
    """Which adds are told of: the ends, and those around the one where the streams part."""
    last = len(stream) - 1
    if whole or len(stream) <= _SHOWN:
        return list(range(len(stream)))
    at = next((i for i, site in enumerate(stream) if site.a == parting), 0)
    kept = {*range(_ENDS), *range(at - _ENDS, at + _ENDS + 1), *range(last - _ENDS + 1, last + 1)}
    return sorted(i for i in kept if 0 <= i <= last)


def side(subject: Subject) -> str:
    """One of the two in a line."""
    what = ", ".join(part for part in (subject.class_, subject.dtype) if part)
    mode = "" if subject.mode == "run" else f" ({subject.mode})"
    return visible(f"{subject.target}  {what}{mode}")


def _whole(message: str) -> str:
    """With all of its names, unless they are out of all proportion."""
    return spelled(message) if len(message) <= _LONGEST else visible(message)


def _sides(comparison: Comparison) -> Iterator[RenderableType]:
    yield Text(_whole(comparison.headline), "bold")
    probe = comparison.a.probe
    rows = [
        ("A", side(comparison.a)),
        ("B", side(comparison.b)),
        ("compared", BASES[comparison.basis]),
    ]
    if comparison.basis != "structure":
        run = f"{count(probe.sequences, 'sequence')}, {count(probe.tokens, 'token')} ({probe.kind})"
        rows.append(("run on", visible(run)))
    if comparison.paired_by == "position":
        rows.append(("matched", "by position in the data flow: the names differ"))
    if comparison.note is not None:
        rows.append(("note", visible(comparison.note)))
    yield facts(rows)


def _differences(comparison: Comparison, page: Page) -> Iterator[RenderableType]:
    found = comparison.differences
    yield heading("Differences", "" if found else "none")
    for difference in found:
        text = Text.assemble(
            (difference.severity, STYLES[difference.severity]),
            f"  {difference.kind}: {_whole(difference.message)}",
        )
        yield prose(text)
        others = (difference.a or difference.b)[1:]
        if difference.kind == "moved-layers":  # its message names both
            continue
        if others:
            places = named(map(visible, others), page.most(_PLACES))
            yield prose(f"also at {places}", QUIET, indent=4)


def _stream(comparison: Comparison, page: Page) -> Iterator[RenderableType]:
    stream, part = comparison.stream, comparison.parting
    if not stream:
        return
    kept = shown(stream, part.a if part else None, whole=page.all_rows)
    yield heading("Stream", f"{len(kept)} of {count(len(stream), 'add')}")
    axis = Axis.over(site.out.median for site in stream)
    yield prose(f"error of y, add by add: {axis.sparkline(s.out.median for s in stream)}")
    tokens = stream[0].tokens
    how = (
        "mean or median length over tokens, the one that differs more"
        if tokens is None
        else f"median over {count(tokens, 'sampled token')} of ||a - b|| / ||a||"
    )
    yield prose(
        f"x: what the add receives. u: what its branch adds. y: their sum. Relative errors: {how}. "
        f"rounding: what {comparison.dtype} explains.",
        QUIET,
    )
    fixed = [Column(title=title, width=8) for title in ("x", "u", "y", "rounding")]
    width = max(room(page, fixed), 16)
    rows, previous = [], -1
    for i in kept:
        if i > previous + 1:
            rows.append([Text(f"… {count(i - previous - 1, 'add')}", QUIET)])
        rows.append(_row(stream[i], width))
        previous = i
    yield table([Column(title="add", right=False), *fixed], rows)


def _row(site: SiteApart, width: int) -> list[Text]:
    is_beyond = site.out.median > site.tolerance
    cells = [number(each.median) for each in (site.skip, site.branch, site.out)]
    return [
        Text(folded(site.a, width)),
        *(Text(cell, "yellow" if is_beyond else "") for cell in cells),
        Text(number(site.tolerance), QUIET),
    ]


def _changes(comparison: Comparison) -> Iterator[RenderableType]:
    yield heading("Findings", "" if comparison.changes else "the same in both")
    for change in comparison.changes:
        finding = change.finding
        text = Text.assemble(
            (f"{change.state} {finding.severity}", STYLES[finding.severity]),
            f"  {visible(finding.code)} {visible(finding.name)}: {visible(finding.message)}",
            (f" ({visible(change.why)})" if change.state == "worse" else "", QUIET),
        )
        yield prose(text)
    for skip in comparison.unjudged:
        said = f"Judged in one of them only: {visible(skip.code)}: {visible(skip.why)}"
        yield prose(said, QUIET)
