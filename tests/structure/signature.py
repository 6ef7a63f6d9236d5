"""What must not depend on how a model is written: an Architecture without lines and labels."""

from __future__ import annotations

import dataclasses
from typing import Any

from normdiag.report.report import Report

_EPS_DIGITS = 2
"""An epsilon that is a tensor is rounded to the model's precision."""


def signature(report: Report) -> dict[str, Any]:
    """Ids, kinds, axes, epsilons, roles, placements, scales, drawings; no line, no class name, and
    not in which format and which shape a run had it, nor the names of multipliers."""
    found = dataclasses.asdict(report.architecture)
    for norm in found["norms"]:
        norm["eps"] = None if norm["eps"] is None else f"{norm['eps']:.{_EPS_DIGITS}g}"
        norm["gain"] = norm["gain"] is not None
        norm["bias_rms"] = norm["bias_rms"] is not None
        del norm["line"], norm["class_"], norm["shape"], norm["dtype"], norm["eps_dtype"]
    for add in found["residual_adds"]:
        del add["line"], add["dtype"], add["multipliers"]
    return found


def gains(report: Report) -> list[float]:
    """rms, smallest and largest of every norm's gain, and rms of every bias."""
    numbers: list[float] = []
    for norm in report.architecture.norms:
        if norm.gain is not None:
            numbers += [norm.gain.rms, norm.gain.min_abs, norm.gain.max_abs]
        if norm.bias_rms is not None:
            numbers.append(norm.bias_rms)
    return numbers
