"""What each layer has learned, in few numbers: enough to find a layer again elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from normdiag.report.compare.rounding import Rounding
from normdiag.report.report import Report


class Number(NamedTuple):
    """A norm or a sum of weights, or the rms of a gain; and how far rounding may move it."""

    value: float
    slack: float


Fingerprint = tuple[Number, ...]
"""Of one layer: the weights of each add's branches, then its gains."""


def fingerprints(report: Report, rounding: Rounding) -> dict[str, list[Fingerprint]]:
    """Stack id -> its layers in order. Empty tuples where nothing learned was measured."""
    found: dict[str, list[list[Number]]] = {
        stack.id: [[] for _ in range(stack.layers)] for stack in report.architecture.stacks
    }
    for add in report.architecture.residual_adds:
        weights = report.measurements.branch_weights.get(add.id)
        if weights is not None:
            size, total = weights.norm, weights.sum
            slack = rounding.norm(weights.elements) * size
            numbers = Number(size, slack), Number(total, rounding.parameter * size)
            found[add.stack][add.layer] += numbers
    for norm in report.architecture.norms:
        if norm.stack is not None and norm.layer is not None and norm.gain is not None:
            rms = norm.gain.rms
            found[norm.stack][norm.layer].append(Number(rms, rounding.parameter * rms))
    return {name: [tuple(layer) for layer in layers] for name, layers in found.items()}


def alike(a: Fingerprint, b: Fingerprint) -> bool:
    """Whether two layers may hold the same; of nothing known this cannot be said."""
    return len(a) == len(b) > 0 and all(
        abs(x.value - y.value) <= max(x.slack, y.slack) for x, y in zip(a, b, strict=True)
    )


def labels(a: Sequence[Fingerprint], b: Sequence[Fingerprint]) -> tuple[list[int], list[int]]:
    """One number for each layer, the same for layers that are alike."""
    kinds: list[Fingerprint] = []

    def label(layer: Fingerprint) -> int:
        known = next((i for i, kind in enumerate(kinds) if alike(layer, kind)), None)
        if known is None:
            kinds.append(layer)
        return len(kinds) - 1 if known is None else known

    return [label(layer) for layer in a], [label(layer) for layer in b]
