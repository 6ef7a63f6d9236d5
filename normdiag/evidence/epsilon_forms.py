"""Where epsilon stands in the denominator of a norm, v being its variance or mean square."""

from __future__ import annotations

from typing import Literal

EpsForm = Literal["in-root", "on-root", "floor-in-root", "floor-of-root"]
_TEXTS: dict[EpsForm, str] = {
    "in-root": "sqrt(v + eps)",
    "on-root": "sqrt(v) + eps",
    "floor-in-root": "sqrt(max(v, eps))",
    "floor-of-root": "max(sqrt(v), eps)",
}
_STATISTICS = {"rmsnorm": "mean square", "l2norm": "sum of squares"}


def format_denominator(form: EpsForm, kind: str) -> str:
    """Write what a norm of one kind divides by.

    >>> format_denominator("on-root", "rmsnorm")
    'sqrt(mean square) + eps'
    """
    return _TEXTS[form].replace("v", _STATISTICS.get(kind, "variance"))


def epsilon_share(form: EpsForm, eps: float, v: float) -> float:
    """The share of epsilon in the denominator.

    eps / (v + eps) or eps / (sqrt(v) + eps) where it is added, and with a floor 1 where the floor
    is what divides, else 0. NaN where nothing is left to divide by.
    """
    if form in ("floor-in-root", "floor-of-root"):
        floored = v if form == "floor-in-root" else v**0.5
        return 1.0 if floored <= eps else 0.0
    total = eps + (v if form == "in-root" else v**0.5)
    return eps / total if total else float("nan")
