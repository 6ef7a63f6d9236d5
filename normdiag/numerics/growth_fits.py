"""Fits of the laws by which a stream's norm can grow with depth, under two models of the scatter.

With N_l the mean norm after add l = 0 .. n-1 and v_l = (N_l / N_0)^2, a law states what add l adds
to the square, d_l = v_l - v_(l-1):

    geometric   d_l = (g^2 - 1) v_(l-1)                   N_l = N_0 g^l
    additive    d_l = b                                   N_l = N_0 sqrt(1 + b l)
    power       d_l = (l + 1)^2p - l^2p                   N_l = N_0 (l + 1)^p
    bounded     d_l ~ r^(l-1), or l^-a with a > 1         N_l tends to a limit

*Writes*: each write has an error of its own, in proportion to d_l, and the norm adds them up, so
that the errors of neighbouring norms are nearly equal. *Norms*: each log norm has an error of its
own. Each law is fitted by maximum likelihood under both. AICc = -2 log L + 2k + 2k(k+1)/(m-k-1)
for m data (Hurvich and Tsai 1989), the densities all taken in log N.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

import numpy as np
import numpy.typing as npt

Law = Literal["constant", "geometric", "additive", "power", "bounded"]
Scatter = Literal["writes", "norms"]
Numbers = npt.NDArray[np.float64]

NOISE = 1e-6
"""The least relative scatter: what float32 resolves. Laws that differ by less are equal."""
POWERS = np.concatenate([np.linspace(-3, -0.02, 80), np.linspace(0.02, 4, 240)])
"""Exponents that are tried."""
_LOG_RATES = np.linspace(math.log(1e-6), math.log(1e8), 161)
_SCALES = np.exp(np.linspace(-4, 10, 71))
_STUDENT = 1.35
"""1 + 1.35 / f is Student's t over the normal quantile at 95 %, to 1 % from f = 5 on."""
_ZOOMS = 7
_CURVATURE_WIDTH = 1e-3
_WITHIN = 2.0
"""Parameters whose log likelihood is lower by at most this lie within two standard errors."""


@dataclass(frozen=True, slots=True)
class LawFit:
    """One law, fitted to n log norms."""

    law: Law
    rate: float
    """Geometric: g. Additive: b. Power: p. Bounded: the limit of N over N_0."""
    rate_error: float
    """Standard error; a fourth of the width of the interval of two where it is no closed form."""
    aicc: float
    curve: Numbers
    """The fitted log norms, up to an offset, (n,)."""
    misfit: float
    """Root mean square of the residuals of the log norms, about their median."""
    largest_misfit: float
    """The largest magnitude of them."""
    reached: float = 1.0
    """Bounded: the share of the limit's square, less the start's, at the last add."""


@dataclass(frozen=True, slots=True)
class _Writes:
    """The increments of v, and their likelihood under a law."""

    y: Numbers
    is_used: npt.NDArray[np.bool_]

    @property
    def squares(self) -> Numbers:
        """v, (n,)."""
        values: Numbers = np.exp(2 * (self.y - self.y[0]))
        return values

    @property
    def data(self) -> int:
        return int(self.is_used.sum())

    @property
    def depth(self) -> Numbers:
        return np.arange(1.0, len(self.y))

    def compute_likelihood(
        self, shapes: Numbers, scale: Numbers | None = None
    ) -> tuple[Numbers, Numbers, Numbers]:
        """Scale, its standard error and log L of increments = scale * shape, (k,) each."""
        used, m = shapes[:, self.is_used], self.data
        ratios = np.diff(self.squares)[self.is_used] / used
        scale = ratios.mean(1) if scale is None else scale
        spread = np.sqrt(np.mean((ratios - scale[:, None]) ** 2, axis=1))
        spread = np.maximum(spread, NOISE * np.abs(scale))
        to_log_norm = float(np.log(2 * self.squares[1:][self.is_used]).sum())
        log_l = -m * np.log(spread) - np.log(np.abs(used)).sum(1) - m / 2 + to_log_norm
        return scale, spread / math.sqrt(m - 1) * (1 + _STUDENT / (m - 1)), log_l


def fit_writes(y: Numbers, is_used: npt.NDArray[np.bool_]) -> list[LawFit]:
    """Fit every law to the increments of the squared norm.

    Args:
        y: log norms, (n,).
        is_used: which increments count, (n-1,): leaps are left out.
    """
    writes, depth = _Writes(y, is_used), np.arange(float(len(y)))
    m, fits = writes.data, []
    scale, error, log_l = writes.compute_likelihood(np.ones((1, len(y) - 1)))
    rate = float(scale[0])
    if 1 + rate * depth[-1] > 0:
        curve = 0.5 * np.log1p(rate * depth)
        fits.append(_make_fit("additive", rate, float(error[0]), _aicc(log_l[0], m, 2), curve, y))
    scale, error, log_l = writes.compute_likelihood(writes.squares[None, :-1])
    if 1 + scale[0] > 0:
        factor = math.sqrt(1 + scale[0])
        of_factor, curve = float(error[0]) / (2 * factor), math.log(factor) * depth
        fits.append(_make_fit("geometric", factor, of_factor, _aicc(log_l[0], m, 2), curve, y))
    power, of_power, top = _maximise(
        lambda powers: writes.compute_likelihood(
            _power_increments(powers, writes.depth), np.ones(len(powers))
        )[2],
        POWERS,
    )
    curve = power * np.log1p(depth)
    of_power *= 1 + _STUDENT / (m - 1)
    fits.append(_make_fit("power", power, of_power, _aicc(top, m, 2), curve, y))
    return [*fits, *_fit_bounded_writes(writes)]


def _fit_bounded_writes(writes: _Writes) -> list[LawFit]:
    """The bounded law, where increments are positive on the whole."""
    shapes, limits = bounded_increments(len(writes.y))
    scale, _, log_l = writes.compute_likelihood(shapes)
    log_l = np.where(scale > 0, log_l, -np.inf)
    best = int(log_l.argmax())
    if not np.isfinite(log_l[best]):
        return []
    bounds = np.sqrt(1 + np.maximum(scale, 0) * limits)
    part = np.concatenate([[0.0], np.cumsum(shapes[best])]) * scale[best]
    error, aicc = _interval_error(bounds, log_l), _aicc(log_l[best], writes.data, 3)
    reached = float(part[-1] / (scale[best] * limits[best]))
    curve = 0.5 * np.log1p(part)
    return [_make_fit("bounded", float(bounds[best]), error, aicc, curve, writes.y, reached)]


def fit_norms(y: Numbers) -> list[LawFit]:
    """Fit every law, and a constant, to the log norms y, (n,), by least squares."""
    depth = np.arange(float(len(y)))
    fits = [_fit_curves("constant", np.zeros(1), np.zeros((1, len(y))), y, 2)]
    centred = depth - depth.mean()
    slope = float(centred @ y / (centred @ centred))
    residual = y - y.mean() - slope * centred
    noise = max(float(residual @ residual) / (len(y) - 2), NOISE**2)
    error = math.sqrt(noise / float(centred @ centred))
    line = _fit_curves("geometric", np.array([math.exp(slope)]), slope * depth[None], y, 3)
    fits.append(_set_error(line, math.exp(slope) * error))
    log_rate, error, _ = _maximise(
        lambda rates: _level_likelihood(y, 0.5 * np.log1p(np.exp(rates)[:, None] * depth)),
        _LOG_RATES,
    )
    rate = math.exp(log_rate)
    curve = 0.5 * np.log1p(rate * depth)
    additive = _fit_curves("additive", np.array([rate]), curve[None], y, 3)
    fits.append(_set_error(additive, rate * error))
    power, error, _ = _maximise(
        lambda powers: _level_likelihood(y, powers[:, None] * np.log1p(depth)), POWERS
    )
    curve = power * np.log1p(depth)
    fits.append(_set_error(_fit_curves("power", np.array([power]), curve[None], y, 3), error))
    shapes, limits = bounded_increments(len(y))
    sums = np.concatenate([np.zeros((len(shapes), 1)), np.cumsum(shapes, axis=1)], axis=1)
    curves = 0.5 * np.log1p(_SCALES[:, None, None] * sums).reshape(-1, len(y))
    bounds = np.sqrt(1 + _SCALES[:, None] * limits).reshape(-1)
    reached = np.broadcast_to(sums[:, -1] / limits, (len(_SCALES), len(limits))).reshape(-1)
    fits.append(_fit_curves("bounded", bounds, curves, y, 4, reached))
    return fits


@cache
def bounded_increments(adds: int) -> tuple[Numbers, Numbers]:
    """Increments whose sum converges, (k, adds - 1), and their sums over all depths, (k,)."""
    depth = np.arange(1.0, adds)
    factors = 1 - np.exp(np.linspace(math.log(0.003), math.log(0.54), 120))
    exponents = np.linspace(1.1, 2.5, 60)
    far = np.arange(1.0, 4000.0)
    tails = (far ** -exponents[:, None]).sum(1) + 4000.0 ** (1 - exponents) / (exponents - 1)
    shapes = [factors[:, None] ** (depth - 1), depth ** -exponents[:, None]]
    return np.concatenate(shapes), np.concatenate([1 / (1 - factors), tails])


def _maximise(
    log_likelihood: Callable[[Numbers], Numbers], grid: Numbers
) -> tuple[float, float, float]:
    """The parameter with the largest log likelihood, its standard error and that likelihood.

    The best of `grid` is refined on finer grids around it; the error is 1/sqrt of the curvature.
    """
    values = grid
    for _ in range(_ZOOMS):
        log_l = log_likelihood(values)
        best = int(log_l.argmax())
        low, high = values[max(best - 1, 0)], values[min(best + 1, len(values) - 1)]
        peak, top = float(values[best]), float(log_l[best])
        values = np.linspace(low, high, 41)
    width = _CURVATURE_WIDTH * max(abs(peak), 0.1)
    left, right = log_likelihood(np.array([peak - width, peak + width]))
    curvature = (2 * top - float(left) - float(right)) / width**2
    return peak, 1 / math.sqrt(curvature) if curvature > 0 else math.inf, top


def compute_aicc(square_sum: float, points: int, parameters: int) -> float:
    """AICc of a least-squares fit with this sum of squares; the noise variance is a parameter."""
    mean_square = max(square_sum / points, NOISE**2)
    return _aicc(-0.5 * points * math.log(mean_square), points, parameters)


def iterate_other_fits(fit: LawFit, fits: list[LawFit], tolerance: float) -> Iterator[LawFit]:
    """Yield those of `fits` whose curve leaves that of `fit` by more than `tolerance`."""
    for other in fits:
        if other is not fit and np.ptp(other.curve - fit.curve) >= tolerance:
            yield other


def _fit_curves(
    law: Law,
    rates: Numbers,
    curves: Numbers,
    y: Numbers,
    parameters: int,
    reached: Numbers | None = None,
) -> LawFit:
    """The best of `curves` (k, n), each with its rate (k,), by least squares of the log norms."""
    n = len(y)
    log_l = _level_likelihood(y, curves)
    best = int(log_l.argmax())
    # the offset is fitted too: n - 1 data, as many as there are increments
    aicc = _aicc(float(log_l[best]) * (n - 1) / n, n - 1, parameters)
    share = 1.0 if reached is None else float(reached[best])
    error = _interval_error(rates, log_l) if len(rates) > 1 else math.nan
    return _make_fit(law, float(rates[best]), error, aicc, curves[best], y, share)


def _level_likelihood(y: Numbers, curves: Numbers) -> Numbers:
    """log L of the log norms y (n,) about each of `curves` (k, n), the offset free."""
    residuals = y - curves
    residuals = residuals - residuals.mean(1, keepdims=True)
    square = np.maximum((residuals**2).mean(1), NOISE**2)
    likelihood: Numbers = -0.5 * len(y) * np.log(square) - len(y) / 2
    return likelihood


def _power_increments(powers: Numbers, depth: Numbers) -> Numbers:
    """(l + 1)^2p - l^2p for each power, (k, n-1), held off zero and overflow."""
    with np.errstate(over="ignore"):
        shapes = (depth + 1) ** (2 * powers[:, None]) - depth ** (2 * powers[:, None])
    tiny = np.abs(shapes) < 1e-300
    bounded: Numbers = np.where(tiny, np.copysign(1e-300, powers[:, None]), shapes)
    return np.nan_to_num(bounded, posinf=1e300, neginf=-1e300)


def _interval_error(parameters: Numbers, log_l: Numbers) -> float:
    inside = parameters[log_l >= log_l.max() - _WITHIN]
    steps = np.abs(np.diff(np.sort(parameters)))
    return max(float(np.ptp(inside)), float(steps.min())) / 4


def _aicc(log_l: float, data: int, parameters: int) -> float:
    if data <= parameters + 1:
        return math.inf
    k = parameters
    return float(-2 * log_l + 2 * k + 2 * k * (k + 1) / (data - k - 1))


def _make_fit(
    law: Law,
    rate: float,
    error: float,
    aicc: float,
    curve: Numbers,
    y: Numbers,
    reached: float = 1.0,
) -> LawFit:
    residual = y - curve
    residual = residual - np.median(residual)
    misfit = math.sqrt(float(np.mean(residual**2)))
    largest = float(np.abs(residual).max())
    return LawFit(law, rate, error, float(aicc), curve, misfit, largest, reached)


def _set_error(fit: LawFit, error: float) -> LawFit:
    return replace(fit, rate_error=error)
