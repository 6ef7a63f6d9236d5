"""The growth law of a stack, from its definition, by other means than normdiag's.

Curves are fitted by `lstsq` and by ever finer grids; AICc, weights and the choice follow what the
module under test states, its two thresholds included.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tests.oracle.numbers import Numbers
from tests.oracle.phases import phases_of
from tests.oracle.taps import Array

LEAD = 4.0
CHANGE = 2.0
NOISE = 1e-6


@dataclass(frozen=True)
class Curve:
    """One fitted law: its rate, the residuals, d(curve)/d(rate) and its end over its start."""

    law: str
    rate: float
    residual: Array
    slope: Array
    change: float

    @property
    def parameters(self) -> int:
        return 2 if self.law == "constant" else 3

    @property
    def aicc(self) -> float:
        n, k = len(self.residual), self.parameters
        deviance = n * np.log(max(np.mean(self.residual**2), NOISE**2))
        return float(deviance + 2 * k * n / (n - k - 1))

    @property
    def error(self) -> float:
        """Of the rate, for noise that is a first-order autoregression."""
        r = self.residual
        noise = max(np.sum(r**2) / (len(r) - 2), NOISE**2)
        correlation = np.clip(np.sum(r[1:] * r[:-1]) / np.sum(r**2), 0.0, 0.99)
        spread = np.sum((self.slope - self.slope.mean()) ** 2)
        return float(np.sqrt(noise * (1 + correlation) / (1 - correlation) / spread))


def law_of(means: Array) -> Numbers:
    """What the report says of these mean norms, add by add."""
    total = means[-1] / means[0]
    unknown = {"law": "undecided", "rate": None, "rate_error": None, "confidence": None}
    if len(means) < 5:
        return {**unknown, "runner_up": None, "total": total, "phases": []}
    curves = _curves(np.log(means))
    found = _verdict(curves)
    best = curves[0]
    off = np.sqrt(np.mean(best.residual**2))
    phases = phases_of(np.log(means), best.aicc, off)
    if found is None:
        return {**unknown, "runner_up": best.law, "total": total, "phases": phases}
    weights = np.exp([(curves[0].aicc - curve.aicc) / 2 for curve in curves])
    others = [curve.law for curve in curves if curve is not found]
    grows = found.law != "constant"
    return {
        "law": found.law,
        "rate": found.rate if grows else None,
        "rate_error": found.error if grows else None,
        "confidence": weights[curves.index(found)] / weights.sum(),
        "runner_up": others[0],
        "total": total,
        "phases": phases,
    }


def _curves(y: Array) -> list[Curve]:
    """Best first; without a power law that is the additive one (exponent 1/2) by another name."""
    depth = np.arange(len(y), dtype=float)
    log_factor, left = _line(depth, y)
    exponent, of_power = _line(np.log(depth + 1), y)
    factor = np.exp(log_factor)
    geometric = Curve("geometric", factor, left, depth / factor, factor ** depth[-1])
    power = Curve("power", exponent, of_power, np.log(depth + 1), len(y) ** exponent)
    constant = Curve("constant", np.nan, y - y.mean(), np.zeros_like(y), 1.0)
    additive = _additive(depth, y)
    curves = [constant, geometric, additive, power]
    is_root = abs(power.rate - 0.5) <= 2 * power.error
    if is_root and additive.aicc - power.aicc < LEAD:
        curves.remove(power)
    return sorted(curves, key=lambda curve: curve.aicc)


def _verdict(curves: list[Curve]) -> Curve | None:
    constant = next(curve for curve in curves if curve.law == "constant")
    best, second = [curve for curve in curves if curve is not constant][:2]
    grows = max(best.change, 1 / best.change) >= CHANGE
    if constant.aicc - min(best.aicc, constant.aicc) < LEAD:
        return None if grows else constant
    return best if grows and second.aicc - best.aicc >= LEAD else None


def _line(x: Array, y: Array) -> tuple[float, Array]:
    design = np.column_stack([x, np.ones_like(x)])
    (slope, offset), *_ = np.linalg.lstsq(design, y, rcond=None)
    return float(slope), y - slope * x - offset


def _additive(depth: Array, y: Array) -> Curve:
    """c + log(1 + b l) / 2: the sum of squares over log b, minimised by ever finer grids."""
    low, high = np.log(1e-6), np.log(1e8)
    for _ in range(12):
        grid = np.linspace(low, high, 201)
        costs = (y - np.log1p(np.exp(grid)[:, None] * depth) / 2).var(axis=1)
        at = int(costs.argmin())
        low, high = grid[max(at - 1, 0)], grid[min(at + 1, len(grid) - 1)]
    b = float(np.exp((low + high) / 2))
    left = y - np.log1p(b * depth) / 2
    slope = depth / (1 + b * depth) / 2
    return Curve("additive", b, left - left.mean(), slope, float(np.sqrt(1 + b * depth[-1])))
