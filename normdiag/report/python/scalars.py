"""The numbers of a report that are worth logging, under names that stay the same.

A name is `part/quantity`, or `part/STACK/quantity` for a stack, whose id is "root" where it is
empty. A quantity that was not measured is left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from statistics import median
from typing import TYPE_CHECKING

from normdiag.evidence.gradients import Clipping
from normdiag.findings import SEVERITIES
from normdiag.report.python.stack_views import StackView

if TYPE_CHECKING:
    from normdiag.report.report import Report

Number = float | None

STACK_SCALARS: Mapping[str, Callable[[StackView], Number]] = {
    "growth": lambda view: view.growth.total if view.growth else None,
    "growth_rate": lambda view: view.growth.rate if view.growth else None,
    "growth_over_init": lambda view: view.growth.total_over_init if view.growth else None,
    "first_out_norm": lambda view: _pick_norm(view, 0),
    "last_out_norm": lambda view: _pick_norm(view, -1),
    "update_ratio": lambda view: _find_median(s.update_ratio.median for s in view.stream.values()),
    "cosine": lambda view: _find_median(s.cosine.median for s in view.stream.values()),
    "max_abs": lambda view: _find_largest(s.max_abs for s in view.stream.values()),
    "token_cosine": lambda view: _find_largest(s.token_cosine for s in view.stream.values()),
    "sink_ratio": lambda view: _find_largest(s.sink_ratio for s in view.stream.values()),
    "input_var": lambda view: _find_smallest(n.input_var.min for n in view.inputs.values()),
    "eps_share": lambda view: _find_largest(n.eps_share.max for n in view.inputs.values()),
    "norm_kappa": lambda view: _find_largest(_list_norm_kappas(view)),
    "gain": lambda view: _find_largest(n.gain.max_abs for n in view.norms if n.gain),
    "block_kappa": lambda view: _find_median(_list_block_kappas(view)),
    "max_block_kappa": lambda view: _find_largest(_list_block_kappas(view)),
}
"""Name -> how it is read from one stack; the names are explained in docs/reference/python.md."""


def list_scalars(report: Report) -> dict[str, float]:
    """Return name -> number, in a fixed order; docs/reference/python.md lists the names."""
    found: dict[str, Number] = {
        f"findings/{severity}": float(sum(f.severity == severity for f in report.findings))
        for severity in reversed(SEVERITIES)
    }
    for id, view in report.stacks.items():
        for name, read in STACK_SCALARS.items():
            found[f"stack/{id or 'root'}/{name}"] = read(view)
    gradients, precision = report.measurements.gradients, report.measurements.precision
    if gradients is not None:
        found["gradients/loss"] = gradients.loss.value
        found["gradients/global_norm"] = gradients.global_norm
        found["gradients/clip_factor"] = _read_factor(gradients.clipping)
        for id, ratio in gradients.ratios.items():
            found[f"stack/{id or 'root'}/gradient_ratio"] = ratio
    if precision is not None:
        for name, form in precision.formats.items():
            found[f"precision/{name}/headroom"] = form.headroom
    return {name: float(value) for name, value in found.items() if value is not None}


def _read_factor(clipping: Clipping | None) -> Number:
    return None if clipping is None else clipping.factor


def _pick_norm(view: StackView, place: int) -> Number:
    norms = [measured.out_norm.mean for measured in view.stream.values()]
    return norms[place] if norms else None


def _list_norm_kappas(view: StackView) -> list[Number]:
    jacobians = [measured.jacobian for measured in view.inputs.values()]
    return [each.kappa.max for each in jacobians if each is not None and each.kappa is not None]


def _list_block_kappas(view: StackView) -> list[Number]:
    """Of the layers, infinite where the smallest singular value is 0."""
    layers = [block for block in view.blocks.values() if block.span == "layer"]
    return [math.inf if block.kappa is None else block.kappa for block in layers]


def _reduce_values(values: Iterable[Number], reduce: Callable[[list[float]], float]) -> Number:
    """NaN where one value is: what min, max and median make of it depends on the order."""
    present = [value for value in values if value is not None]
    if any(map(math.isnan, present)):
        return math.nan
    return reduce(present) if present else None


def _find_median(values: Iterable[Number]) -> Number:
    return _reduce_values(values, median)


def _find_largest(values: Iterable[Number]) -> Number:
    return _reduce_values(values, max)


def _find_smallest(values: Iterable[Number]) -> Number:
    return _reduce_values(values, min)
