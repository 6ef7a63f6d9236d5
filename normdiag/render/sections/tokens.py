"""One sequence: which tokens stand out, and every token through every layer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rich.console import RenderableType
from rich.text import Text

from normdiag.evidence.architecture import Norm, ResidualAdd, Stack
from normdiag.evidence.tokens import TokenTrace
from normdiag.render.escape import escape_text
from normdiag.render.heat import Heat, Worst, draw
from normdiag.render.page import Page, heading, prose
from normdiag.render.sections import outlier_tokens
from normdiag.report.report import Report

Sites = Sequence[tuple[str, tuple[str, ...]]]
"""Columns: a heading, and the ids of the sites that it stands for."""


def section(report: Report, trace: TokenTrace, page: Page) -> Iterator[RenderableType]:
    """Yield the words and the heat tables of one sequence."""
    text = "" if trace.text is None else escape_text(trace.text)
    yield heading(f"Sequence {trace.sequence}", text)
    for sentence in outlier_tokens.sentences(report, trace):
        yield prose(sentence)
    for stack in report.architecture.stacks:
        adds = report.architecture.adds_of_stack(stack.id)
        norms = report.architecture.norms_of_stack(stack.id)
        name = escape_text(stack.id)
        tables: tuple[tuple[str, Mapping[str, tuple[float, ...]], Sites, Worst], ...] = (
            (f"Stream norm after each layer of {name}", trace.out_norm, _ends(adds), max),
            ("Update ratio, the largest of each layer", trace.update_ratio, _adds(adds), max),
            (
                "Variance that norms see, the smallest of each layer",
                trace.input_var,
                _norms(norms),
                min,
            ),
        )
        for title, values, columns, worst in tables:
            heat = _heat(trace, values, columns, worst)
            if heat is not None:
                yield prose(Text(f"\n{title}", "bold"))
                yield from draw(heat, page)
        ids = [add.id for add in adds] + [norm.id for norm in norms]
        yield from _elsewhere(stack, trace, ids)


def label(trace: TokenTrace, position: int) -> str:
    """Return a token's position and text, blanks made visible."""
    return f"{position:>4} {escape_text(trace.tokens[position]).replace(' ', '␣')}"


def _heat(
    trace: TokenTrace, values: Mapping[str, tuple[float, ...]], columns: Sites, worst: Worst
) -> Heat | None:
    """Return the table of those columns that have values at the tokens that are named."""
    length = len(trace.tokens)
    kept = [
        (title, seen)
        for title, ids in columns
        if (seen := [values[id] for id in ids if id in values and len(values[id]) == length])
    ]
    if not kept or not length:
        return None
    return Heat(
        rows=tuple(label(trace, position) for position in range(length)),
        columns=tuple(title for title, _ in kept),
        cells=tuple(
            tuple(worst([at[position] for at in seen]) for _, seen in kept)
            for position in range(length)
        ),
        worst=worst,
    )


def _adds(adds: Sequence[ResidualAdd]) -> Sites:
    layers: dict[int, list[str]] = {}
    for add in adds:
        layers.setdefault(add.layer, []).append(add.id)
    return [(str(layer), tuple(ids)) for layer, ids in layers.items()]


def _ends(adds: Sequence[ResidualAdd]) -> Sites:
    return [(layer, ids[-1:]) for layer, ids in _adds(adds)]


def _norms(norms: Sequence[Norm]) -> Sites:
    """Return one column per layer, the norms before the first and after the last at the ends."""
    layers: dict[str, list[str]] = {}
    for norm in norms:
        outside = "in" if norm.role == "embedding" else "out"
        layers.setdefault(outside if norm.layer is None else str(norm.layer), []).append(norm.id)
    return [(layer, tuple(ids)) for layer, ids in layers.items()]


def _elsewhere(stack: Stack, trace: TokenTrace, ids: list[str]) -> Iterator[RenderableType]:
    lengths = {
        len(values[id])
        for values in (trace.out_norm, trace.input_var)
        for id in ids
        if id in values
    }
    if lengths and len(trace.tokens) not in lengths:
        yield prose(
            f"{escape_text(stack.id)} runs over other tokens ({', '.join(map(str, sorted(lengths)))} "
            "of them); --format csv has their numbers."
        )
