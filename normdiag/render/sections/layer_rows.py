"""Which layers of a long stack a table shows, and the gaps between them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from normdiag.number_text import format_count
from normdiag.render.elements import Gap, Row

_FOLD_FROM = 12
"""Layers that are all shown; of a longer stack the first, the most extreme and the last are."""


def select_layers(
    layers: Sequence[int], extreme: Iterable[int], *, ends: int, all_rows: bool
) -> set[int]:
    """Return the layers to show: `ends` at either end and the extreme ones, or all."""
    if all_rows or len(layers) <= _FOLD_FROM:
        return set(layers)
    return {*layers[:ends], *layers[-ends:], *extreme}


def insert_gaps(rows: Iterable[tuple[int, Row]], shown: set[int]) -> Iterator[Row | Gap]:
    """Yield the rows of the shown layers, with a gap wherever layers are left out."""
    previous = -1
    for layer, row in rows:
        if layer not in shown:
            continue
        if layer > previous + 1:
            yield Gap(text=format_count(layer - previous - 1, "layer"))
        yield row
        previous = layer
