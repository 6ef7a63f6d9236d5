"""One site, token by token, in numbers."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest

from normdiag.evidence.architecture import Norm
from normdiag.evidence.epsilon_forms import epsilon_share, format_denominator
from normdiag.evidence.tokens import TokenTrace
from normdiag.number_text import UNKNOWN, format_number, format_percent
from normdiag.render.elements import (
    Cell,
    Column,
    Element,
    Gap,
    Heading,
    Number,
    Row,
    Sentence,
    Table,
)
from normdiag.render.escape import shorten_text
from normdiag.render.sections.stack_names import name_stack
from normdiag.render.sections.tokens import name_token
from normdiag.render.site_lookup import find_site
from normdiag.report.report import Report

_FOLD_FROM = 40
_ENDS = 10
_TOKEN = Column(title="token")
_ADD_COLUMNS = (
    _TOKEN,
    Column(title="norm", align="right"),
    Column(title="update", align="right"),
    Column(title="max |y|", align="right"),
    Column(title="channel", align="right"),
)
_NORM_COLUMNS = (
    _TOKEN,
    Column(title="variance", align="right"),
    Column(title="eps share", align="right"),
)


def section(report: Report, id: str, *, all_rows: bool) -> Iterator[Element]:
    """Yield one table for each sequence. Raises UsageError for an id that the report has not."""
    site = find_site(report, id)
    if isinstance(site, Norm):
        detail = f"{site.kind}, {site.role}, {_describe_epsilon(site)}"
    else:
        detail = f"add {site.depth} of {name_stack(site.stack)}, {site.placement}"
    yield Heading(title=shorten_text(id), detail=detail)
    for trace in report.trace or ():
        values = _list_norm(trace, site) if isinstance(site, Norm) else _list_add(trace, id)
        if not values:
            yield Sentence(text=f"Sequence {trace.sequence}: not traced at this site.")
            continue
        yield Sentence(text=f"Sequence {trace.sequence}")
        has_names = len(values) == len(trace.tokens)
        rows = [
            Row(cells=(name_token(trace, k) if has_names else f"{k:>4}", *cells))
            for k, cells in enumerate(values)
        ]
        columns = _NORM_COLUMNS if isinstance(site, Norm) else _ADD_COLUMNS
        yield Table(columns=columns, rows=tuple(_fold_rows(rows, all_rows=all_rows)))


def _describe_epsilon(norm: Norm) -> str:
    if norm.eps is None:
        return f"eps {UNKNOWN}"
    return f"eps {format_number(norm.eps)} in {format_denominator(norm.eps_form, norm.kind)}"


def _list_add(trace: TokenTrace, id: str) -> list[tuple[Cell, ...]]:
    columns = (trace.out_norm, trace.update_ratio, trace.max_abs)
    per_token = zip_longest(
        *(column.get(id, ()) for column in columns), trace.max_channel.get(id, ())
    )
    return [
        (
            *(Number(value=value) for value in values),
            UNKNOWN if channel is None else str(channel),
        )
        for *values, channel in per_token
    ]


def _list_norm(trace: TokenTrace, norm: Norm) -> list[tuple[Cell, ...]]:
    return [
        (
            Number(value=variance),
            Number(
                value=None
                if norm.eps is None
                else epsilon_share(norm.eps_form, norm.eps, norm.variance_scale * variance),
                write=format_percent,
            ),
        )
        for variance in trace.input_var.get(norm.id, ())
    ]


def _fold_rows(rows: list[Row], *, all_rows: bool) -> Iterator[Row | Gap]:
    if all_rows or len(rows) <= _FOLD_FROM:
        yield from rows
        return
    yield from rows[:_ENDS]
    yield Gap(text=f"{len(rows) - 2 * _ENDS} more")
    yield from rows[-_ENDS:]
