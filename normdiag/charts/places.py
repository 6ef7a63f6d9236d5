"""Where each site of a report stands on the horizontal axis: in the order of the forward.

Stacks stand behind each other, so that curves of an encoder and a decoder do not cross.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from normdiag.evidence.architecture import Architecture, ResidualAdd, layer_id, title_stack
from normdiag.report.report import Report


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One site on the axis."""

    x: int
    id: str
    stack: str
    layer: int | None


def list_adds(report: Report) -> tuple[Place, ...]:
    """Return the residual adds."""
    return tuple(
        Place(x=x, id=add.id, stack=add.stack, layer=add.layer)
        for x, add in enumerate(sort_adds(report.architecture))
    )


def list_layers(report: Report) -> tuple[Place, ...]:
    """Return the layers of all stacks, by the ids that `measurements.layers` has."""
    pairs = dict.fromkeys((add.stack, add.layer) for add in sort_adds(report.architecture))
    return tuple(
        Place(x=x, id=layer_id(stack, layer), stack=stack, layer=layer)
        for x, (stack, layer) in enumerate(pairs)
    )


def list_norms(report: Report) -> tuple[Place, ...]:
    """Return the norms; those of no stack stand where the forward runs them."""
    return tuple(
        Place(x=x, id=norm.id, stack=norm.stack or "", layer=norm.layer)
        for x, norm in enumerate(report.architecture.norms)
    )


def sort_adds(architecture: Architecture) -> list[ResidualAdd]:
    """Return the adds stack by stack, each in its own order."""
    order = {stack.id: place for place, stack in enumerate(architecture.stacks)}
    return sorted(
        architecture.residual_adds, key=lambda add: (order.get(add.stack, len(order)), add.depth)
    )


def find_starts(places: Iterable[Place]) -> Iterator[tuple[int, str]]:
    """Yield where each stack begins, and its title; nothing where there is only one."""
    starts: dict[str, int] = {}
    for place in places:
        starts.setdefault(place.stack, place.x)
    if len(starts) > 1:
        yield from ((x, title_stack(stack)) for stack, x in starts.items())
