"""The tensors of the checkpoint that are worth a line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from normdiag.evidence.weights import TensorSummary
from normdiag.number_text import format_count, format_number, format_value
from normdiag.render.elements import Column, Element, Heading, Name, Number, Row, Sentence, Table
from normdiag.render.escape import shorten_text
from normdiag.report.report import Report

_SHOWN = 8
_COLUMNS = (
    Column(title="tensor"),
    Column(title="dtype"),
    Column(title="elements", align="right"),
    Column(title="zeros", align="right"),
    Column(title="max |w|", align="right"),
    Column(title="not finite", align="right"),
)


def section(report: Report, *, all_rows: bool) -> Iterator[Element]:
    """Yield the tensors that were flagged and, where nothing was run, gains and biases."""
    weights = report.measurements.weights
    if weights is None:
        return
    most = None if all_rows else _SHOWN
    if weights.flagged:
        yield Heading(title="Flagged tensors")
        for tensor in weights.flagged[:most]:
            text = _describe_tensor(tensor)
            yield Sentence(text=text, style="alarm" if tensor.nonfinite else "plain")
        hidden = len(weights.flagged) - len(weights.flagged[:most])
        if hidden:
            yield Sentence(text=f"and {hidden:,} more")
    if weights.vectors:
        vectors = sorted(
            weights.vectors,
            key=lambda tensor: (tensor.nonfinite, tensor.zeros, tensor.max_abs),
            reverse=True,
        )
        shown = vectors[:most]
        count = f"{len(shown)} of {format_count(len(vectors), 'vector')}"
        yield Heading(title="Gains and biases", detail=count)
        yield _tabulate_vectors(shown)


def _describe_tensor(tensor: TensorSummary) -> str:
    text = f"{shorten_text(tensor.name)} {list(tensor.shape)}, {shorten_text(tensor.dtype)}"
    if tensor.loaded_dtype is not None:
        text += f" loaded as {shorten_text(tensor.loaded_dtype)}"
    text += f": max |w| {format_number(tensor.max_abs)}, {format_count(tensor.zeros, 'zero')}"
    if tensor.nonfinite:
        text += f", {tensor.nonfinite:,} NOT FINITE"
    if tensor.first_nonfinite is not None:
        text += f" (first at {list(tensor.first_nonfinite)})"
    return text


def _tabulate_vectors(vectors: Sequence[TensorSummary]) -> Table:
    rows = (
        Row(
            cells=(
                Name(text=vector.name),
                vector.dtype,
                Number(value=vector.elements, write=format_value),
                Number(value=vector.zeros, write=format_value),
                Number(value=vector.max_abs),
                Number(value=vector.nonfinite, write=format_value),
            )
        )
        for vector in vectors
    )
    return Table(columns=_COLUMNS, rows=tuple(rows))
