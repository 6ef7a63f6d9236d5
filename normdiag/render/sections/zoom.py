"""One site, token by token, in numbers."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest

from rich.console import RenderableType
from rich.text import Text

from normdiag.evidence.architecture import Norm
from normdiag.evidence.tokens import TokenTrace
from normdiag.render.escape import visible
from normdiag.render.page import Column, Page, heading, prose, table
from normdiag.render.sections.tokens import label
from normdiag.render.site import find
from normdiag.render.units import UNKNOWN, number, percent
from normdiag.report.report import Report

_FOLD_FROM = 40
_ENDS = 10


def section(report: Report, id: str, page: Page) -> Iterator[RenderableType]:
    """Yield one table for each sequence. Raises UsageError for an id that the report has not."""
    site = find(report, id)
    if isinstance(site, Norm):
        yield heading(visible(id), f"{site.kind}, {site.role}, eps {number(site.eps)}")
    else:
        yield heading(visible(id), f"add {site.depth} of {visible(site.stack)}, {site.placement}")
    for trace in report.trace or ():
        rows = _norm(trace, site) if isinstance(site, Norm) else _add(trace, id)
        if not rows:
            yield prose(f"Sequence {trace.sequence} was not traced here.")
            continue
        yield prose(f"Sequence {trace.sequence}")
        named = len(rows) == len(trace.tokens)
        labels = [label(trace, at) if named else f"{at:>4}" for at in range(len(rows))]
        titles = _NORM if isinstance(site, Norm) else _ADD
        columns = [Column(title="token", right=False), *(Column(title=title) for title in titles)]
        yield table(columns, _folded(labels, rows, page))


_ADD = ("norm", "update", "max |y|", "channel")
_NORM = ("variance", "eps share")


def _add(trace: TokenTrace, id: str) -> list[tuple[str, ...]]:
    columns = (trace.out_norm, trace.update_ratio, trace.max_abs)
    per_token = zip_longest(
        *(column.get(id, ()) for column in columns), trace.max_channel.get(id, ())
    )
    return [
        (*map(number, numbers), UNKNOWN if channel is None else str(channel))
        for *numbers, channel in per_token
    ]


def _norm(trace: TokenTrace, norm: Norm) -> list[tuple[str, ...]]:
    return [
        (number(var), percent(None if norm.eps is None else norm.eps / (var + norm.eps)))
        for var in trace.input_var.get(norm.id, ())
    ]


def _folded(labels: list[str], rows: list[tuple[str, ...]], page: Page) -> Iterator[list[Text]]:
    hidden = range(0)
    if not page.all_rows and len(rows) > _FOLD_FROM:
        hidden = range(_ENDS, len(rows) - _ENDS)
    for at, (name, row) in enumerate(zip(labels, rows, strict=True)):
        if at not in hidden:
            yield [Text(name), *map(Text, row)]
        elif at == hidden.start:
            yield [Text(f"   … {len(hidden)} more")]
