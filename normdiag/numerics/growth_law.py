"""Law of the residual stream's norm over depth, with its confidence.

With y_l = log of the mean norm after add l = 0 .. n-1, each law is fitted by least squares:

    constant    y = c
    geometric   y = c + l log g                  rate g: the factor per add
    additive    y = c + log(1 + b l) / 2         rate b: independent writes, variance grows by b
    power       y = c + p log(l + 1)             rate p: the exponent

and they are compared by AICc = n log(RSS/n) + 2k + 2k(k+1)/(n-k-1), where k counts the variance of
the noise (Hurvich and Tsai 1989). Akaike weights, exp(-AICc/2) normalised, are the confidence
(Burnham and Anderson 2002). Residuals along depth are correlated, so AICc is overconfident: a law
therefore needs a margin over the others, and the standard error is widened.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from normdiag.errors import NormdiagError

Law = Literal["constant", "geometric", "additive", "power"]
Numbers = npt.NDArray[np.float64]

MARGIN = 4.0
"""One law is preferred to another where its AICc is lower by this much."""
TOTAL = 2.0
"""The stream grows, or shrinks, where the fitted curve changes by this factor from end to end."""
_LEAST_POINTS = 5
_NOISE = 1e-6
"""Smallest noise of a log norm, the resolution of float32: laws that differ by less are equal."""


@dataclass(frozen=True, slots=True)
class LawFit:
    """One law, fitted to n log norms."""

    law: Law
    rate: float
    """NaN for the constant law."""
    rate_error: float
    """Standard error, widened where neighbouring residuals are correlated."""
    aicc: float
    misfit: float
    """Root mean square of the residuals of the log norms."""
    total: float
    """Factor by which the fitted curve changes from the first add to the last."""


@dataclass(frozen=True, slots=True)
class GrowthLaw:
    """The selected law of one stack."""

    law: Law | Literal["undecided"]
    rate: float | None
    """In the unit of the law; None for constant and undecided."""
    rate_error: float | None
    confidence: float | None
    """Akaike weight of the law among those tried; None for undecided."""
    runner_up: Law | None
    """The second best law; for an undecided stack the best one."""
    fits: tuple[LawFit, ...]
    """The laws tried, best first; none with fewer than 5 adds."""


def fit_growth_law(norms: Numbers) -> GrowthLaw:
    """Choose the law of the norms (n,), one per add in the order of depth.

    A stack is constant where no law beats that by `MARGIN` and the best one changes by less than
    `TOTAL`. It follows a growing law that beats every other by `MARGIN` and changes by `TOTAL`.
    Otherwise, and with fewer than 5 adds, it is undecided.

    Raises:
        NormdiagError: a norm is not a positive finite number.
    """
    norms = np.asarray(norms, dtype=np.float64)
    if not (np.isfinite(norms).all() and (norms > 0).all()):
        raise NormdiagError(
            f"no growth law fits norms from {norms.min()} to {norms.max()}",
            "only positive finite norms have a logarithm",
        )
    if len(norms) < _LEAST_POINTS:
        return GrowthLaw("undecided", None, None, None, None, ())
    y = np.log(norms)
    fits = _drop_equivalent_power(
        [_fit_constant(y), _fit_geometric(y), _fit_additive(y), _fit_power(y)]
    )
    best, second = fits[:2]
    law = _select_law(fits)
    if law is None:
        return GrowthLaw("undecided", None, None, None, best.law, tuple(fits))
    runner_up = second if law is best else best
    weights = {f.law: math.exp((best.aicc - f.aicc) / 2) for f in fits}
    grows = law.law != "constant"
    return GrowthLaw(
        law=law.law,
        rate=law.rate if grows else None,
        rate_error=law.rate_error if grows else None,
        confidence=weights[law.law] / sum(weights.values()),
        runner_up=runner_up.law,
        fits=tuple(fits),
    )


def _select_law(fits: list[LawFit]) -> LawFit | None:
    """Select the law from all fits, best first; None where undecided."""
    constant = next(f for f in fits if f.law == "constant")
    growing = [f for f in fits if f is not constant]
    grows = abs(math.log(growing[0].total)) >= math.log(TOTAL)
    if constant.aicc - fits[0].aicc < MARGIN:
        return None if grows else constant
    lead = growing[1].aicc - growing[0].aicc
    return growing[0] if grows and lead >= MARGIN else None


def _drop_equivalent_power(fits: list[LawFit]) -> list[LawFit]:
    """Sort the fits, best first, without a power law that equals the additive one.

    With b = 1 both are (l + 1)^(1/2). An exponent that does not differ significantly from 1/2
    counts as the additive law, which has a mechanism: updates independent of the stream.
    """
    law = {f.law: f for f in fits}
    power, additive = law["power"], law["additive"]
    fits_as_well = additive.aicc - power.aicc < MARGIN
    if fits_as_well and abs(power.rate - 0.5) <= 2 * power.rate_error:
        fits = [f for f in fits if f is not power]
    return sorted(fits, key=lambda f: f.aicc)


def _fit_constant(y: Numbers) -> LawFit:
    return LawFit(
        "constant",
        math.nan,
        math.nan,
        _residual_aicc(_subtract_mean(y), 2),
        _root_mean_square(_subtract_mean(y)),
        1.0,
    )


def _fit_geometric(y: Numbers) -> LawFit:
    slope, error, residual = _fit_line(np.arange(len(y), dtype=np.float64), y)
    factor = math.exp(slope)
    total = factor ** (len(y) - 1)
    return LawFit(
        "geometric",
        factor,
        factor * error,
        _residual_aicc(residual, 3),
        _root_mean_square(residual),
        total,
    )


def _fit_power(y: Numbers) -> LawFit:
    exponent, error, residual = _fit_line(np.log1p(np.arange(len(y))), y)
    return LawFit(
        "power",
        exponent,
        error,
        _residual_aicc(residual, 3),
        _root_mean_square(residual),
        len(y) ** exponent,
    )


def _fit_additive(y: Numbers) -> LawFit:
    """Fit by least squares over log b: grid search, then golden sections."""
    depth = np.arange(len(y), dtype=np.float64)

    def residuals_at(log_b: float) -> Numbers:
        return _subtract_mean(y - 0.5 * np.log1p(math.exp(log_b) * depth))

    def square_sum_at(log_b: float) -> float:
        return float(np.square(residuals_at(log_b)).sum())

    grid = np.linspace(math.log(1e-6), math.log(1e8), 161)
    curves = y - 0.5 * np.log1p(np.exp(grid)[:, None] * depth)
    valley = int(curves.var(axis=1).argmin())
    ends = max(valley - 1, 0), min(valley + 1, len(grid) - 1)
    log_b = _golden_section_minimum(square_sum_at, float(grid[ends[0]]), float(grid[ends[1]]))
    b, left = math.exp(log_b), residuals_at(log_b)
    slope = 0.5 * depth / (1 + b * depth)
    error = _standard_error(_subtract_mean(slope), left)
    return LawFit(
        "additive",
        b,
        error,
        _residual_aicc(left, 3),
        _root_mean_square(left),
        math.sqrt(1 + b * depth[-1]),
    )


def _golden_section_minimum(cost: Callable[[float], float], low: float, high: float) -> float:
    """Find the minimum of a unimodal function in [low, high] (Kiefer 1953)."""
    ratio = (math.sqrt(5) - 1) / 2
    left, right = high - ratio * (high - low), low + ratio * (high - low)
    at_left, at_right = cost(left), cost(right)
    while high - low > 1e-9:
        if at_left < at_right:
            high, right, at_right = right, left, at_left
            left = high - ratio * (high - low)
            at_left = cost(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + ratio * (high - low)
            at_right = cost(right)
    return 0.5 * (low + high)


def _fit_line(x: Numbers, y: Numbers) -> tuple[float, float, Numbers]:
    """Return slope, standard error and residuals of the least-squares line."""
    x = _subtract_mean(x)
    slope = float(x @ y / (x @ x))
    residual = _subtract_mean(y) - slope * x
    return slope, _standard_error(x, residual), residual


def _subtract_mean(values: Numbers) -> Numbers:
    centred: Numbers = values - values.mean()
    return centred


def _root_mean_square(residual: Numbers) -> float:
    return math.sqrt(float(residual @ residual) / len(residual))


def _standard_error(x: Numbers, residual: Numbers) -> float:
    """Standard error of the coefficient of x (centred), for AR(1) residuals."""
    noise = max(float(residual @ residual) / (len(residual) - 2), _NOISE**2)
    square = float(residual @ residual)
    correlation = float(residual[1:] @ residual[:-1]) / square if square > 0 else 0.0
    correlation = min(max(correlation, 0.0), 0.99)
    widened = noise * (1 + correlation) / (1 - correlation)
    return math.sqrt(widened / float(x @ x))


def _residual_aicc(residual: Numbers, parameters: int) -> float:
    return compute_aicc(float(residual @ residual), len(residual), parameters)


def compute_aicc(square_sum: float, points: int, parameters: int) -> float:
    """AICc of a fit with this residual sum of squares; the noise variance is a parameter."""
    n, k = points, parameters
    if n <= k + 1:
        return math.inf
    mean_square = max(square_sum / n, _NOISE**2)
    return n * math.log(mean_square) + 2 * k + 2 * k * (k + 1) / (n - k - 1)
