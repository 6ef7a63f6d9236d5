"""Guess repeated layers and possible norm gains from the names and shapes of tensors.

Used only where there is no configuration. Where the vectors act remains unknown.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

_NUMBER = re.compile(r"\.(\d+)\.")
_MAX_LISTED = 6

Shape = tuple[int, ...]


@dataclass(slots=True)
class _LayerGroup:
    """Tensors whose names differ in one number, the index of the layer."""

    layers: set[int] = field(default_factory=set)
    vectors: Counter[str] = field(default_factory=Counter)

    def frequent_vectors(self) -> list[str]:
        """The vectors of more than half of the layers."""
        return [name for name, count in self.vectors.items() if 2 * count > len(self.layers)]


def guess_layers(shapes: Mapping[str, Shape]) -> dict[str, str]:
    """Describe, per name prefix and outside of layers, number of layers and possible gains.

    A vector that is not a bias multiplies elementwise, as a gain does (a LayerScale as well).
    """
    groups: dict[str, _LayerGroup] = defaultdict(_LayerGroup)
    outside: list[str] = []
    for name, shape in shapes.items():
        is_gain = len(shape) == 1 and not name.endswith("bias")
        place = _NUMBER.search(name)
        if place is not None:
            group = groups[name[: place.start()]]
            group.layers.add(int(place[1]))
            if is_gain:
                group.vectors[_format_vector(name[place.end() :], shape)] += 1
        elif is_gain:
            outside.append(_format_vector(name, shape))
    descriptions = {
        prefix: f"layers: {len(group.layers)}; possible gains in each: "
        f"{_format_vectors(group.frequent_vectors())}"
        for prefix, group in groups.items()
    }
    return descriptions | {"outside of layers": f"possible gains: {_format_vectors(outside)}"}


def _format_vector(name: str, shape: Shape) -> str:
    return f"{name} [{shape[0]}]"


def _format_vectors(vectors: list[str]) -> str:
    more = ", .." if len(vectors) > _MAX_LISTED else ""
    return f"{len(vectors)} ({', '.join(vectors[:_MAX_LISTED])}{more})" if vectors else "none"
