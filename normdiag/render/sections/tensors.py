"""The tensors of the checkpoint that are worth a line."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from normdiag.evidence.weights import Tensor
from normdiag.render.escape import folded, visible
from normdiag.render.page import Column, Page, heading, prose, room, table
from normdiag.render.sections.subject import ALARM
from normdiag.render.units import count, number
from normdiag.report.report import Report

_SHOWN = 8


def section(report: Report, page: Page) -> Iterator[RenderableType]:
    """Yield the tensors that were noted and, where nothing was run, gains and biases."""
    weights = report.measurements.weights
    if weights is None:
        return
    if weights.noted:
        yield heading("Tensors worth a look")
        yield from _lines(weights.noted, page)
    if weights.vectors:
        worst_first = sorted(
            weights.vectors,
            key=lambda tensor: (tensor.nonfinite, tensor.zeros, tensor.max_abs),
            reverse=True,
        )
        shown = worst_first if page.all_rows else worst_first[:_SHOWN]
        yield heading("Gains and biases", f"{len(shown)} of {count(len(worst_first), 'vector')}")
        yield _table(shown, page)


def _lines(tensors: tuple[Tensor, ...], page: Page) -> Iterator[RenderableType]:
    shown = tensors if page.all_rows else tensors[:_SHOWN]
    for tensor in shown:
        said = f"{visible(tensor.name)} {list(tensor.shape)}, {visible(tensor.dtype)}"
        if tensor.loaded_dtype is not None:
            said += f" loaded as {visible(tensor.loaded_dtype)}"
        said += f": max |w| {number(tensor.max_abs)}, {count(tensor.zeros, 'zero')}"
        if tensor.nonfinite:
            said += f", {tensor.nonfinite:,} NOT FINITE"
        if tensor.first_nonfinite is not None:
            said += f" (first at {list(tensor.first_nonfinite)})"
        yield prose(said, ALARM if tensor.nonfinite else "")
    if len(tensors) > len(shown):
        yield prose(f"and {len(tensors) - len(shown):,} more")


def _table(shown: list[Tensor], page: Page) -> RenderableType:
    fixed = [
        Column(title="dtype", right=False, width=8),
        Column(title="elements", width=9),
        Column(title="zeros", width=7),
        Column(title="max |w|", width=8),
        Column(title="not finite", width=10),
    ]
    width = room(page, fixed)
    rows = [
        [
            Text(folded(tensor.name, width)),
            Text(visible(tensor.dtype)),
            Text(f"{tensor.elements:,}"),
            Text(f"{tensor.zeros:,}"),
            Text(number(tensor.max_abs)),
            Text(f"{tensor.nonfinite:,}"),
        ]
        for tensor in shown
    ]
    return table([Column(title="tensor", right=False), *fixed], rows)
