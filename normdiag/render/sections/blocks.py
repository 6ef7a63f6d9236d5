"""The Jacobian of each layer, and of each whole stack, as medians over tokens."""

from __future__ import annotations

import math
from collections.abc import Iterator

from normdiag.evidence.architecture import Stack, layer_id
from normdiag.evidence.blocks import BlockJacobian
from normdiag.number_text import format_number, format_percent
from normdiag.render.axis import Axis
from normdiag.render.elements import (
    Column,
    Element,
    Heading,
    Number,
    Row,
    Sentence,
    Series,
    Table,
)
from normdiag.render.sections.layer_rows import insert_gaps, select_layers
from normdiag.render.sections.stack_names import name_stack
from normdiag.render.sort_key import nan_as_largest
from normdiag.report.report import Report

_ENDS = 2
_INEXACT = 0.01
_COLUMNS = (
    Column(title="layer"),
    Column(
        title="sigma_max",
        align="right",
        meaning="largest singular value of the layer's Jacobian J, output by input",
    ),
    Column(title="sigma_min", align="right", meaning="the smallest one"),
    Column(title="kappa", align="right", meaning="sigma_max / sigma_min"),
    Column(title="kappa range", align="right", meaning="smallest and largest over the tokens"),
    Column(
        title="mean sq.",
        align="right",
        meaning="of all singular values (1: lengths are kept on average)",
    ),
    Column(title="|J - I|", align="right", meaning="spectral distance from the identity"),
)


def section(report: Report, *, all_rows: bool) -> Iterator[Element]:
    """Yield one table for each stack whose layers were differentiated."""
    for stack in report.architecture.stacks:
        layers = {
            block.layer: block
            for id, block in report.measurements.blocks.items()
            if block.layer is not None and id == layer_id(stack.id, block.layer)
        }
        if not layers:
            continue
        place = f"layer by layer, {_describe_tokens(next(iter(layers.values())))}"
        yield Heading(title=f"Jacobians of {name_stack(stack.id)}", detail=place)
        yield _plot_maxima(layers)
        yield _tabulate_layers(layers, all_rows=all_rows)
        for text in _describe_blocks(report, stack, layers):
            yield Sentence(text=text)


def _plot_maxima(layers: dict[int, BlockJacobian]) -> Series:
    maxima = {layer: block.sigma_max for layer, block in layers.items()}
    return Series(
        title="sigma_max",
        x_title="layer",
        x=tuple(map(str, maxima)),
        y=tuple(maxima.values()),
        axis=Axis.fit_values(maxima.values()),
        reference=1.0,
    )


def _tabulate_layers(layers: dict[int, BlockJacobian], *, all_rows: bool) -> Table:
    steepest = max(layers, key=lambda layer: nan_as_largest(layers[layer].sigma_max))
    extreme = (_find_largest_kappa(layers), steepest)
    shown = select_layers(list(layers), extreme, ends=_ENDS, all_rows=all_rows)
    rows = ((layer, _make_row(layer, block)) for layer, block in layers.items())
    return Table(columns=_COLUMNS, rows=tuple(insert_gaps(rows, shown)))


def _make_row(layer: int, block: BlockJacobian) -> Row:
    return Row(
        cells=(
            str(layer),
            Number(value=block.sigma_max),
            Number(value=block.sigma_min, bound="<" if block.is_bound else ""),
            _bound_kappa(block),
            _format_range(block),
            Number(value=block.mean_square),
            Number(value=block.distance),
        )
    )


def _bound_kappa(block: BlockJacobian) -> Number:
    return Number(value=block.kappa, bound=">" if block.is_bound else "")


def _format_range(block: BlockJacobian) -> str:
    kappas = [math.inf if token.kappa is None else token.kappa for token in block.tokens]
    if not kappas or block.kappa is None:
        return ""
    largest = max(block.tokens, key=lambda token: nan_as_largest(token.kappa or math.inf))
    bound = ">" if largest.is_bound else ""
    return f"{format_number(min(kappas))}..{bound}{format_number(max(kappas))}"


def _describe_tokens(block: BlockJacobian) -> str:
    token = block.token
    if not block.tokens:
        return f"at token {token.position} of sequence {token.sequence}"
    positions = ", ".join(str(each.token.position) for each in block.tokens)
    if len(block.tokens) == 1:
        return f"at token {positions} of sequence {token.sequence}"
    which = (
        ""
        if len(block.tokens) % 2
        else " (of two in the middle the worse one, of kappa the better)"
    )
    return (
        f"medians{which}, column by column, over {len(block.tokens)} tokens "
        f"(positions {positions} of sequence {token.sequence}{_describe_context(block)})"
    )


def _describe_context(block: BlockJacobian) -> str:
    """Say which tokens of the sequence the model was run on."""
    if block.context is None:
        return ""
    if all(each.context == each.token.position + 1 for each in block.tokens):
        return ", each run on the tokens up to it"
    return f", run on {block.context} of its tokens, the very last one among them"


def _find_largest_kappa(layers: dict[int, BlockJacobian]) -> int:
    return max(layers, key=lambda layer: nan_as_largest(layers[layer].kappa or 0.0))


def _describe_blocks(
    report: Report, stack: Stack, layers: dict[int, BlockJacobian]
) -> Iterator[str]:
    whole = report.measurements.blocks.get(stack.id)
    if whole is not None:
        product = ""
        if whole.product is not None:
            product = f"; product of the layers' sigma_max: {format_number(whole.product)}"
        yield f"All layers together (median): sigma_max {format_number(whole.sigma_max)}{product}."
    worst = _find_largest_kappa(layers)
    yield f"Largest median kappa: {_bound_kappa(layers[worst]).written_value} (layer {worst})."
    zeros = max(block.zeros for block in layers.values())
    if zeros:
        yield (
            f"Left out: up to {zeros} of {stack.width} directions, which the norm on the stream "
            "removes by its form or by gains near 0."
        )
    if any(block.is_bound for block in layers.values()):
        yield "< and >: bounds, where the smallest singular value was not resolved."
    error = max(block.error for block in layers.values())
    if error > _INEXACT:
        yield f"Relative error of sigma_max in this precision: up to {format_percent(error)}."
