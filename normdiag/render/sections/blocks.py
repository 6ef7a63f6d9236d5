"""What each layer, and each whole stack, does to a small change of the stream."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from normdiag.evidence.architecture import Stack, layer_id
from normdiag.evidence.blocks import BlockJacobian
from normdiag.render.escape import escape_text
from normdiag.render.page import QUIET, Column, Page, heading, prose, table
from normdiag.render.sort_key import nan_as_largest
from normdiag.render.units import count, number, percent, times
from normdiag.report.report import Report

_FOLD_FROM = 12
"""Layers that are all shown; a longer stack shows its first, its worst and its last."""
_ENDS = 2


def section(report: Report, page: Page) -> Iterator[RenderableType]:
    """Yield one table for each stack whose layers were differentiated."""
    for stack in report.architecture.stacks:
        blocks = report.measurements.blocks
        layers = {
            block.layer: block
            for id, block in blocks.items()
            if block.layer is not None and id == layer_id(stack.id, block.layer)
        }
        if not layers:
            continue
        at = next(iter(layers.values())).token
        where = f"token {at.position} of sequence {at.sequence}"
        yield heading(f"Jacobians of {escape_text(stack.id)}", f"layer by layer, at {where}")
        yield prose(
            "A small change of what a layer is given comes out at most `largest` and at least "
            "`smallest` times as long; kappa: their ratio. mean square: over all directions (1: "
            "length is kept). |J - I|: how far the layer is from doing nothing.",
            QUIET,
        )
        yield table(_COLUMNS, _rows(layers, page))
        yield prose("\n".join(_sentences(report, stack, layers)))


_COLUMNS = (
    Column(title="layer", right=False, width=len("… 99 layers")),
    Column(title="largest", width=9),
    Column(title="smallest", width=10),
    Column(title="kappa", width=10),
    Column(title="mean square", width=11),
    Column(title="|J - I|", width=9),
)


def _rows(layers: dict[int, BlockJacobian], page: Page) -> Iterator[list[Text]]:
    shown = _shown(layers, page)
    previous = -1
    for layer, block in layers.items():
        if layer not in shown:
            continue
        if layer > previous + 1:
            gap = count(layer - previous - 1, "layer")
            yield [Text(f"… {gap}", QUIET), *(Text("") for _ in _COLUMNS[1:])]
        previous = layer
        yield [
            Text(str(layer)),
            Text(number(block.sigma_max)),
            Text(_bounded("<", block, block.sigma_min)),
            Text(_bounded(">", block, block.kappa)),
            Text(number(block.mean_square)),
            Text(number(block.distance)),
        ]


def _bounded(sign: str, block: BlockJacobian, value: float | None) -> str:
    return f"{sign if block.is_bound and value is not None else ''}{number(value)}"


def _shown(layers: dict[int, BlockJacobian], page: Page) -> set[int]:
    numbers = list(layers)
    if page.all_rows or len(numbers) <= _FOLD_FROM:
        return set(numbers)
    worst = {_worst(layers), max(numbers, key=lambda n: nan_as_largest(layers[n].sigma_max))}
    return {*numbers[:_ENDS], *numbers[-_ENDS:], *worst}


def _worst(layers: dict[int, BlockJacobian]) -> int:
    return max(layers, key=lambda layer: nan_as_largest(layers[layer].kappa or 0.0))


def _sentences(report: Report, stack: Stack, layers: dict[int, BlockJacobian]) -> Iterator[str]:
    whole = report.measurements.blocks.get(stack.id)
    if whole is not None:
        beside = ""
        if whole.product is not None:
            beside = f"; one layer's largest after the other would make {times(whole.product)}"
        yield f"End to end a small change grows at most {times(whole.sigma_max)}{beside}."
    worst = layers[_worst(layers)]
    if len(layers) > _FOLD_FROM:
        over = _bounded(">", worst, worst.kappa)
        yield f"Worst conditioned: layer {_worst(layers)}, kappa {over}."
    zeros = max(block.zeros for block in layers.values())
    if zeros:
        yield (
            f"Of {stack.width} directions {zeros} are left out, which the norm on the stream "
            "takes away in any case."
        )
    if any(block.is_bound for block in layers.values()):
        yield (
            "< and >: bounds, where the smallest is not told from zero or was not computed in full."
        )
    error = max(block.error for block in layers.values())
    if error > 0.01:
        yield f"In this precision the largest is known to {percent(error)} only."
