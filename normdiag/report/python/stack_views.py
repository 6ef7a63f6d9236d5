"""The stacks of a report, by id or by number, each with all that was measured of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from normdiag.evidence.architecture import Norm, ResidualAdd, Stack, find_layer_stack
from normdiag.evidence.blocks import BlockJacobian
from normdiag.evidence.layers import LayerMeasurement
from normdiag.evidence.norm_inputs import NormMeasurement
from normdiag.evidence.stream import AddMeasurement, Closure, Growth
from normdiag.number_text import format_count, format_factor
from normdiag.printable_text import escape_in_full

if TYPE_CHECKING:
    from normdiag.report.report import Report


@dataclass(frozen=True, slots=True, repr=False)
class StackView:
    """One stack: its structure and its part of the measurements, by id."""

    structure: Stack
    growth: Growth | None
    closure: Closure | None
    adds: tuple[ResidualAdd, ...]
    stream: Mapping[str, AddMeasurement]
    """Of `adds`."""
    norms: tuple[Norm, ...]
    inputs: Mapping[str, NormMeasurement]
    """Of `norms`."""
    layers: Mapping[str, LayerMeasurement]
    blocks: Mapping[str, BlockJacobian]
    """Of the adds, the layers and the whole stack."""

    def __repr__(self) -> str:
        return f"<stack {describe_stack(self)}>"


class StackViews(Mapping[str, StackView]):
    """Stack id -> its view, in the order of the forward; numbers from 0 are keys as well."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._stacks = {stack.id: stack for stack in report.architecture.stacks}

    def __getitem__(self, key: str | int) -> StackView:
        ids = list(self._stacks)
        if isinstance(key, int) and -len(ids) <= key < len(ids):
            key = ids[key]
        if not isinstance(key, str) or key not in self._stacks:
            known = ", ".join(f"{place} or {id!r}" for place, id in enumerate(ids))
            raise KeyError(f"the report has no stack {key!r}; it has {known or 'none'}")
        return _view_stack(self._report, self._stacks[key])

    def __iter__(self) -> Iterator[str]:
        return iter(self._stacks)

    def __len__(self) -> int:
        return len(self._stacks)

    def __repr__(self) -> str:
        return f"<stacks {', '.join(map(repr, self._stacks)) or 'none'}>"


def describe_stack(view: StackView) -> str:
    """Return id, layers, placement, formula and growth in one line."""
    stack, growth = view.structure, view.growth
    text = f"{stack.title}: {format_count(stack.layers, 'layer')}, {stack.placement}, "
    text += stack.drawing
    if growth is not None:
        text += f"; ||y|| grows {format_factor(growth.total)} ({growth.law})"
    return escape_in_full(text)


def _view_stack(report: Report, stack: Stack) -> StackView:
    seen = report.measurements
    adds = report.architecture.adds_of_stack(stack.id)
    norms = report.architecture.norms_of_stack(stack.id)
    # from what was measured: how many layers a saved report states may be any number
    layers = {id: each for id, each in seen.layers.items() if each.stack == stack.id}
    spans = {stack.id, *(add.id for add in adds)}
    return StackView(
        structure=stack,
        growth=seen.growth.get(stack.id),
        closure=seen.closure.get(stack.id),
        adds=adds,
        stream={add.id: seen.stream[add.id] for add in adds if add.id in seen.stream},
        norms=norms,
        inputs={norm.id: seen.norms[norm.id] for norm in norms if norm.id in seen.norms},
        layers=layers,
        blocks={
            id: block
            for id, block in seen.blocks.items()
            if id in spans or find_layer_stack(id) == stack.id
        },
    )
