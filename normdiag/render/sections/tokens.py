"""One sequence: its outlier tokens, and every token through every layer."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from normdiag.evidence.architecture import Norm, ResidualAdd, Stack
from normdiag.evidence.tokens import TokenTrace
from normdiag.render.elements import (
    Element,
    Extreme,
    Heading,
    HeatMap,
    Sentence,
    pick_extreme,
)
from normdiag.render.escape import shorten_text
from normdiag.render.sections.outlier_tokens import describe_outliers
from normdiag.render.sections.stack_names import name_stack
from normdiag.report.report import Report

_FOLD_FROM = 24
"""Tokens that are all shown; of a longer sequence the ends and the most extreme are."""
_ENDS = 8

Columns = Sequence[tuple[str, tuple[str, ...]]]
"""A title each, and the ids of the sites that it stands for."""


def section(report: Report, trace: TokenTrace, *, all_rows: bool) -> Iterator[Element]:
    """Yield the sentences and the heat maps of one sequence."""
    text = "" if trace.text is None else shorten_text(trace.text)
    yield Heading(title=f"Sequence {trace.sequence}", detail=text)
    for sentence in describe_outliers(report, trace):
        yield Sentence(text=sentence)
    for stack in report.architecture.stacks:
        yield from _map_stack(report, stack, trace, all_rows=all_rows)


def name_token(trace: TokenTrace, position: int) -> str:
    """Return a token's position and text, blanks made visible."""
    return f"{position:>4} {trace.tokens[position].replace(' ', '␣')}"


def _map_stack(
    report: Report, stack: Stack, trace: TokenTrace, *, all_rows: bool
) -> Iterator[Element]:
    adds = report.architecture.adds_of_stack(stack.id)
    norms = report.architecture.norms_of_stack(stack.id)
    name = name_stack(stack.id)
    maps: tuple[tuple[str, Mapping[str, tuple[float, ...]], Columns, Extreme], ...] = (
        (
            f"Stream norm after each layer of {name}",
            trace.out_norm,
            _list_last_adds(adds),
            "largest",
        ),
        (
            f"Update ratio, largest of each layer of {name}",
            trace.update_ratio,
            _list_adds(adds),
            "largest",
        ),
        (
            f"Variance of norm inputs, smallest of each layer of {name}",
            trace.input_var,
            _list_norms(norms),
            "smallest",
        ),
    )
    for title, values, columns, extreme in maps:
        heat_map = _make_heat_map(trace, values, columns, extreme)
        if heat_map is not None:
            yield replace(_unfold_map(heat_map) if all_rows else heat_map, title=title)
    yield from _note_other_tokens(
        stack, trace, [add.id for add in adds] + [norm.id for norm in norms]
    )


def _make_heat_map(
    trace: TokenTrace, values: Mapping[str, tuple[float, ...]], columns: Columns, extreme: Extreme
) -> HeatMap | None:
    """Return the map of those columns that have values at the tokens that are named."""
    length = len(trace.tokens)
    measured = [
        (title, sites)
        for title, ids in columns
        if (sites := [values[id] for id in ids if id in values and len(values[id]) == length])
    ]
    if not measured or not length:
        return None
    cells = tuple(
        tuple(pick_extreme([site[position] for site in sites], extreme) for _, sites in measured)
        for position in range(length)
    )
    return HeatMap(
        title="",
        rows=tuple(name_token(trace, position) for position in range(length)),
        columns=tuple(title for title, _ in measured),
        cells=cells,
        extreme=extreme,
        shown_rows=_select_rows([pick_extreme(row, extreme) for row in cells], extreme),
    )


def _unfold_map(heat_map: HeatMap) -> HeatMap:
    return replace(heat_map, shown_rows=tuple(range(len(heat_map.rows))), merges_columns=False)


def _select_rows(extremes: list[float], extreme: Extreme) -> tuple[int, ...]:
    """Return the rows of both ends and the most extreme ones; all of a short sequence."""
    rows = list(range(len(extremes)))
    if len(rows) <= _FOLD_FROM:
        return tuple(rows)
    first = math.inf if extreme == "largest" else -math.inf
    keys = [first if math.isnan(value) else value for value in extremes]
    ranked = sorted(rows, key=lambda row: keys[row], reverse=extreme == "largest")
    return tuple(sorted({*rows[:_ENDS], *rows[-_ENDS:], *ranked[:_ENDS]}))


def _list_adds(adds: Sequence[ResidualAdd]) -> Columns:
    layers: dict[int, list[str]] = {}
    for add in adds:
        layers.setdefault(add.layer, []).append(add.id)
    return [(str(layer), tuple(ids)) for layer, ids in layers.items()]


def _list_last_adds(adds: Sequence[ResidualAdd]) -> Columns:
    return [(layer, ids[-1:]) for layer, ids in _list_adds(adds)]


def _list_norms(norms: Sequence[Norm]) -> Columns:
    """Return one column per layer, the norms before the first and after the last at the ends."""
    layers: dict[str, list[str]] = {}
    for norm in norms:
        outside = "in" if norm.role == "embedding" else "out"
        layers.setdefault(outside if norm.layer is None else str(norm.layer), []).append(norm.id)
    return [(layer, tuple(ids)) for layer, ids in layers.items()]


def _note_other_tokens(stack: Stack, trace: TokenTrace, ids: list[str]) -> Iterator[Element]:
    lengths = {
        len(values[id])
        for values in (trace.out_norm, trace.input_var)
        for id in ids
        if id in values
    }
    if lengths and len(trace.tokens) not in lengths:
        counts = ", ".join(map(str, sorted(lengths)))
        yield Sentence(
            text=f"{name_stack(stack.id)} runs over other tokens ({counts} of them); their values "
            "are in --format csv."
        )
