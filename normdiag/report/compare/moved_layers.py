"""Layers that stand elsewhere: swapped, shifted, or twice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from normdiag.report.compare.comparison import Difference
from normdiag.report.compare.fingerprints import Fingerprint, alike, fingerprints
from normdiag.report.compare.report_pair import Sides


@dataclass(frozen=True, slots=True)
class Moved:
    """Stack of the first -> layer of the second -> the other layer of the first that it holds."""

    layers: dict[str, dict[int, int]]

    def has(self, stack: str | None, layer: int | None) -> bool:
        """Whether that layer of the first has another's content in the second."""
        return stack is not None and layer in self.layers.get(stack, {})


def find_moved(sides: Sides) -> Moved:
    """Looked for in stacks of equally many layers; others are lined up when they are paired."""
    mine = fingerprints(sides.a, sides.rounding)
    theirs = fingerprints(sides.b, sides.rounding)
    return Moved(
        {
            a.id: _moves(mine[a.id], theirs[b.id])
            for a, b in sides.pairing.stacks
            if a.layers == b.layers
        }
    )


def _moves(a: Sequence[Fingerprint], b: Sequence[Fingerprint]) -> dict[int, int]:
    """Layers that hold what just one other holds: of equal layers nobody can say which it was."""
    moves = {}
    for layer, content in enumerate(b):
        if not alike(a[layer], content):
            sources = [i for i, other in enumerate(a) if alike(other, content)]
            if len(sources) == 1:
                moves[layer] = sources[0]
    return moves


def told(sides: Sides, moved: Moved) -> list[Difference]:
    """Each swap once, then what else stands elsewhere."""
    return [
        _difference(a.id, b.id, layer, source, is_swap=moves.get(source) == layer)
        for a, b in sides.pairing.stacks
        for moves in (moved.layers.get(a.id, {}),)
        for layer, source in moves.items()
        if moves.get(source) != layer or layer < source
    ]


def _difference(a: str, b: str, layer: int, source: int, *, is_swap: bool) -> Difference:
    if is_swap:
        message = (
            f"layers {layer} and {source} of {a} are swapped: each holds in B what the other "
            "holds in A"
        )
    else:
        message = f"layer {layer} of {a} holds in B what layer {source} holds in A"
    return Difference(
        kind="moved-layers",
        severity="error",
        a=tuple(f"{a}/layer#{i}" for i in sorted((layer, source))),
        b=tuple(f"{b}/layer#{i}" for i in sorted((layer, source))),
        message=message,
    )
