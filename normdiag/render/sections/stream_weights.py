"""The weights with which branches read and write several streams, layer by layer."""

from __future__ import annotations

from collections.abc import Iterator

from normdiag.evidence.architecture import ResidualAdd, Stack, StreamWeights
from normdiag.number_text import format_number
from normdiag.render.elements import Column, Element, Heading, Name, Row, Table
from normdiag.render.sections.layer_rows import insert_gaps, select_layers
from normdiag.render.sections.stack_names import name_stack, shorten_add_id
from normdiag.report.report import Report

_ENDS = 3
_SHOWN = 8
_OF_DATA = "by token"
_COLUMNS = (
    Column(title="layer", align="right", is_group=True),
    Column(title="add"),
    Column(
        title="read",
        meaning="weight of each stream in the sum that the branch reads",
    ),
    Column(
        title="write",
        meaning=f"weight of the branch's output in each stream ({_OF_DATA}: computed from the "
        "inputs; -: not known)",
    ),
)


def tabulate_stream_weights(report: Report, stack: Stack, *, all_rows: bool) -> Iterator[Element]:
    """Yield a row per add of a stack of several streams; nothing for others."""
    adds = report.architecture.adds_of_stack(stack.id)
    if stack.streams == 1 or not any(add.read_weights or add.write_weights for add in adds):
        return
    yield Heading(
        level=3, title=f"Streams of {name_stack(stack.id)}", detail=f"{stack.streams:,} per token"
    )
    layers = list(dict.fromkeys(add.layer for add in adds))
    shown = select_layers(layers, (), ends=_ENDS, all_rows=all_rows)
    rows = ((add.layer, _make_row(add, stack)) for add in adds)
    yield Table(columns=_COLUMNS, rows=tuple(insert_gaps(rows, shown)))


def _make_row(add: ResidualAdd, stack: Stack) -> Row:
    weights = (_write_weights(each) for each in (add.read_weights, add.write_weights))
    return Row(cells=(str(add.layer), Name(text=shorten_add_id(add.id, stack.id)), *weights))


def _write_weights(weights: StreamWeights | None) -> str:
    if weights is not None and weights.kind == "data":
        return _OF_DATA
    if weights is None or weights.values is None:
        return format_number(None)
    text = " ".join(map(format_number, weights.values[:_SHOWN]))
    return text if len(weights.values) <= _SHOWN else f"{text} .."
