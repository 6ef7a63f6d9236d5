"""Fingerprints of layers: a few numbers of the weights, to recognise a layer elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from normdiag.report.compare.rounding import Rounding
from normdiag.report.report import Report


class TolerantNumber(NamedTuple):
    """A norm or sum of weights, or the rms of a gain, with its rounding tolerance."""

    value: float
    slack: float


Fingerprint = tuple[TolerantNumber, ...]
"""One layer: the weights of each add's branches, then its gains."""


def compute_fingerprints(report: Report, rounding: Rounding) -> dict[str, list[Fingerprint]]:
    """Map stack ids to the fingerprints of their layers; empty tuples where nothing was
    measured."""
    numbers_of: dict[str, list[list[TolerantNumber]]] = {
        stack.id: [[] for _ in range(stack.layers)] for stack in report.architecture.stacks
    }
    for add in report.architecture.residual_adds:
        weights = report.measurements.branch_weights.get(add.id)
        if weights is not None:
            size, total = weights.norm, weights.sum
            slack = rounding.norm_tolerance(weights.elements) * size
            numbers = (
                TolerantNumber(size, slack),
                TolerantNumber(total, rounding.parameter_tolerance * size),
            )
            numbers_of[add.stack][add.layer] += numbers
    for norm in report.architecture.norms:
        if norm.stack is not None and norm.layer is not None and norm.gain is not None:
            rms = norm.gain.rms
            numbers_of[norm.stack][norm.layer].append(
                TolerantNumber(rms, rounding.parameter_tolerance * rms)
            )
    return {name: [tuple(layer) for layer in layers] for name, layers in numbers_of.items()}


def is_match(a: Fingerprint, b: Fingerprint) -> bool:
    """Whether two layers agree within rounding; False for empty fingerprints."""
    return len(a) == len(b) > 0 and all(
        abs(x.value - y.value) <= max(x.slack, y.slack) for x, y in zip(a, b, strict=True)
    )


def label_layers(a: Sequence[Fingerprint], b: Sequence[Fingerprint]) -> tuple[list[int], list[int]]:
    """Label each layer with a number, equal for matching layers."""
    kinds: list[Fingerprint] = []

    def assign_label(layer: Fingerprint) -> int:
        known = next((i for i, kind in enumerate(kinds) if is_match(layer, kind)), None)
        if known is None:
            kinds.append(layer)
        return len(kinds) - 1 if known is None else known

    return [assign_label(layer) for layer in a], [assign_label(layer) for layer in b]
