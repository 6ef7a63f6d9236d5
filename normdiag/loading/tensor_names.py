"""What the names and shapes of a checkpoint's tensors let one guess, where nothing else is known.

Such a guess is no architecture: it says what repeats and which vectors may be gains of norms, and
nothing of where they act.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

_NUMBER = re.compile(r"\.(\d+)\.")
_FEW = 6

Shape = tuple[int, ...]


@dataclass(slots=True)
class _LayerGroup:
    """Tensors whose names differ in one number: the layers that the number counts."""

    layers: set[int] = field(default_factory=set)
    vectors: Counter[str] = field(default_factory=Counter)

    def frequent_vectors(self) -> list[str]:
        """The vectors that most layers have."""
        return [name for name, count in self.vectors.items() if 2 * count > len(self.layers)]


def guess_layers(shapes: Mapping[str, Shape]) -> dict[str, str]:
    """Where layers repeat, and outside of them: how many, and which vectors may be gains.

    A vector that is no bias multiplies element by element, as a gain does (a LayerScale too).
    """
    rows: dict[str, _LayerGroup] = defaultdict(_LayerGroup)
    outside: list[str] = []
    for name, shape in shapes.items():
        is_gain = len(shape) == 1 and not name.endswith("bias")
        place = _NUMBER.search(name)
        if place is not None:
            row = rows[name[: place.start()]]
            row.layers.add(int(place[1]))
            if is_gain:
                row.vectors[_format_vector(name[place.end() :], shape)] += 1
        elif is_gain:
            outside.append(_format_vector(name, shape))
    said = {
        prefix: f"layers: {len(row.layers)}; possible gains in each: {_format_vectors(row.frequent_vectors())}"
        for prefix, row in rows.items()
    }
    return said | {"outside of layers": f"possible gains: {_format_vectors(outside)}"}


def _format_vector(name: str, shape: Shape) -> str:
    return f"{name} [{shape[0]}]"


def _format_vectors(vectors: list[str]) -> str:
    more = ", .." if len(vectors) > _FEW else ""
    return f"{len(vectors)} ({', '.join(vectors[:_FEW])}{more})" if vectors else "none"
