"""A second opinion on the growth law of a stream, by plain least squares.

Where all squared norms increase, a law's increments are fitted in logarithms: log d_l against the
logarithm of the law's own increment, an error of equal size for every write. Else the log norms
themselves are fitted. Laws are weighed by the Bayesian criterion m log(S / m) + k log m (Schwarz
1978), S the sum of squares of m data about k parameters, and one is named where it leads every law
with another curve by `LEAD` and passes the published gates: 15 % rms, a factor of 1.5 at every add.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from tests.oracle.taps import Array

LEAD = 10.0
RMS, FACTOR = 0.15, 1.5
SAME_CURVE = 0.05
FLOOR = 1e-12
"""Mean square below which a fit is exact, that of single precision."""


@dataclass(frozen=True)
class Opinion:
    law: str
    parameter: float | None
    """g, b, p, or the limit of N over N_0; None for constant and undecided."""
    curves: dict[str, Array]
    """Law -> log of N over N_0."""

    def misses(self, norms: Array) -> dict[str, tuple[float, float]]:
        """Law -> (rms, largest factor) by which its curve misses the norms, the level free."""
        return {law: _misses(np.log(norms), curve) for law, curve in self.curves.items()}


@dataclass(frozen=True)
class _Candidate:
    law: str
    parameter: float
    criterion: float
    curve: Array


def form_opinion(norms: Array) -> Opinion:
    """Name the law of these norms, one per add."""
    y = np.log(np.asarray(norms, dtype=np.float64))
    if np.exp(y.max() - y.min()) < 2:
        return Opinion("constant", None, {})
    squares = np.exp(2 * (y - y[0]))
    fit = _fit_increments if (np.diff(squares) > 0).all() else _fit_levels
    candidates = sorted(fit(y, squares), key=lambda each: each.criterion)
    curves = {each.law: each.curve for each in candidates}
    best = candidates[0]
    additive = next((each for each in candidates if each.law == "additive"), best)
    if np.ptp(additive.curve - best.curve) < SAME_CURVE:
        best = additive
    rivals = [
        each.criterion for each in candidates if np.ptp(each.curve - best.curve) >= SAME_CURVE
    ]
    rms, factor = _misses(y, best.curve)
    if min(rivals, default=math.inf) - best.criterion < LEAD or rms > RMS or factor > FACTOR:
        return Opinion("undecided", None, curves)
    return Opinion(best.law, best.parameter, curves)


def _fit_increments(y: Array, squares: Array) -> Iterator[_Candidate]:
    """log d_l = log (law's increment) + error."""
    steps, depth = np.diff(squares), np.arange(1.0, len(y))
    all_depths = np.arange(float(len(y)))

    def criterion(residual: Array, parameters: int) -> float:
        return _criterion(float(residual @ residual), len(steps), parameters)

    logs = np.log(steps / squares[:-1])
    growth = math.sqrt(1 + math.exp(logs.mean()))
    residual = logs - logs.mean()
    yield _Candidate("geometric", growth, criterion(residual, 1), all_depths * math.log(growth))
    logs = np.log(steps)
    rate = math.exp(logs.mean())
    residual = logs - logs.mean()
    yield _Candidate("additive", rate, criterion(residual, 1), 0.5 * np.log1p(rate * all_depths))
    power = _search(
        lambda p: _square_sum(logs - np.log((depth + 1) ** (2 * p) - depth ** (2 * p))), 0.02, 4.0
    )
    residual = logs - np.log((depth + 1) ** (2 * power) - depth ** (2 * power))
    yield _Candidate("power", power, criterion(residual, 1), power * np.log1p(all_depths))
    for regressor, is_falling_law in ((depth - 1, False), (np.log(depth), True)):
        slope, height = np.polyfit(regressor, logs, 1)
        far = np.arange(1.0, 1e5)
        if slope >= (-1 if is_falling_law else 0):
            continue  # its sum has no limit
        tail = np.exp(height + slope * (np.log(far) if is_falling_law else far - 1)).sum()
        fitted = np.exp(height + slope * regressor)
        curve = 0.5 * np.log1p(np.concatenate([[0.0], np.cumsum(fitted)]))
        residual = logs - np.log(fitted)
        yield _Candidate("bounded", math.sqrt(1 + tail), criterion(residual, 2), curve)


def _fit_levels(y: Array, _: Array) -> Iterator[_Candidate]:
    """log N_l = level + curve + error."""
    depth = np.arange(float(len(y)))
    shapes: dict[str, tuple[Callable[[float], Array], float, float]] = {
        "geometric": (lambda rate: rate * depth, -1.0, 1.0),
        "additive": (lambda log_b: 0.5 * np.log1p(math.exp(log_b) * depth), -14.0, 18.0),
        "power": (lambda power: power * np.log1p(depth), -3.0, 4.0),
    }
    for law, (shape, low, high) in shapes.items():
        parameter = _search(
            lambda value, shape=shape: _level_square_sum(y, shape(value)), low, high
        )
        curve = shape(parameter)
        value = parameter if law == "power" else math.exp(parameter)
        square_sum = _level_square_sum(y, curve)
        yield _Candidate(law, value, _criterion(square_sum, len(y), 2), curve)
    ratios, rises = np.linspace(0.5, 0.995, 100), np.exp(np.linspace(-2, 8, 100))
    part = 1 - ratios[:, None] ** depth
    curves = 0.5 * np.log1p(rises[:, None, None] * part).reshape(-1, len(y))
    square_sums = (y - curves).var(axis=1) * len(y)
    best = int(square_sums.argmin())
    limit = math.sqrt(1 + rises[best // len(ratios)])
    yield _Candidate("bounded", limit, _criterion(square_sums[best], len(y), 3), curves[best])


def _criterion(square_sum: float, data: int, parameters: int) -> float:
    return data * math.log(max(square_sum / data, FLOOR)) + parameters * math.log(data)


def _square_sum(residual: Array) -> float:
    return float(residual @ residual)


def _level_square_sum(y: Array, curve: Array) -> float:
    return _square_sum((y - curve) - (y - curve).mean())


def _misses(y: Array, curve: Array) -> tuple[float, float]:
    residual = (y - curve) - np.median(y - curve)
    return math.sqrt(np.mean(residual**2)), math.exp(np.abs(residual).max())


def _search(cost: Callable[[float], float], low: float, high: float) -> float:
    """The minimum, by grids each inside the best cell of the last."""
    for _ in range(8):
        grid = np.linspace(low, high, 61)
        best = int(np.argmin([cost(float(value)) for value in grid]))
        low, high = grid[max(best - 1, 0)], grid[min(best + 1, 60)]
    return float((low + high) / 2)
