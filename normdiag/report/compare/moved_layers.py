"""Layers at another position: swapped, shifted or repeated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from normdiag.evidence.architecture import layer_id, title_stack
from normdiag.report.compare.comparison import Difference
from normdiag.report.compare.fingerprints import Fingerprint, compute_fingerprints, is_match
from normdiag.report.compare.report_pair import ReportPair


@dataclass(frozen=True, slots=True)
class MovedLayers:
    """Stack of the first -> layer of the second -> layer of the first with the same weights."""

    layers: dict[str, dict[int, int]]

    def is_moved(self, stack: str | None, layer: int | None) -> bool:
        """Whether this layer holds the weights of another one in the second model."""
        return stack is not None and layer in self.layers.get(stack, {})


def find_moved_layers(sides: ReportPair) -> MovedLayers:
    """Find moved layers in stacks of equal depth; others are aligned when they are paired."""
    mine = compute_fingerprints(sides.a, sides.rounding)
    theirs = compute_fingerprints(sides.b, sides.rounding)
    return MovedLayers(
        {
            a.id: _find_moves(mine[a.id], theirs[b.id])
            for a, b in sides.pairing.stacks
            if a.layers == b.layers
        }
    )


def _find_moves(a: Sequence[Fingerprint], b: Sequence[Fingerprint]) -> dict[int, int]:
    """Find layers that match exactly one other layer; equal layers are ambiguous."""
    moves = {}
    for layer, content in enumerate(b):
        if not is_match(a[layer], content):
            sources = [i for i, other in enumerate(a) if is_match(other, content)]
            if len(sources) == 1:
                moves[layer] = sources[0]
    return moves


def describe_moved_layers(sides: ReportPair, moved: MovedLayers) -> list[Difference]:
    """Describe each swap once, then other moved layers."""
    return [
        _moved_difference(a.id, b.id, layer, source, is_swap=moves.get(source) == layer)
        for a, b in sides.pairing.stacks
        for moves in (moved.layers.get(a.id, {}),)
        for layer, source in moves.items()
        if moves.get(source) != layer or layer < source
    ]


def _moved_difference(a: str, b: str, layer: int, source: int, *, is_swap: bool) -> Difference:
    if is_swap:
        message = (
            f"layers {layer} and {source} of {title_stack(a)} are swapped in B: each has the "
            "weights of the other"
        )
    else:
        message = f"layer {layer} of {title_stack(a)} in B has the weights of layer {source} in A"
    return Difference(
        kind="moved-layers",
        severity="error",
        a=tuple(layer_id(a, i) for i in sorted((layer, source))),
        b=tuple(layer_id(b, i) for i in sorted((layer, source))),
        message=message,
    )
