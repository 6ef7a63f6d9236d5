"""Which law the norm of the residual stream follows with depth, and how sure that is.

A stream that stays within a factor of 2 keeps its size: `constant`. Otherwise all laws of
`growth_fits` are weighed by AICc, under the model of the scatter that makes the best law likelier,
and one is named only where all of this holds: it leads every law with another curve by `LEAD`; its
curve misses no norm by more than a factor of 1.5, nor by more than 15 % as a root mean square; its
rate is known, two standard errors being less than the rate (geometric: than its distance from 1).
Akaike weights, exp(-AICc/2) normalised over all laws, are the confidence (Burnham and Anderson
2002). Else the law is `undecided`.

A *leap* is one add that changes the norm by far more than those around it; it is no part of a law.
One among the first two adds starts the stream: the law is that of the adds behind it. Later leaps
are taken out, of the norm as a factor or of its square as a sum; the law is named where one of the
two ways gives one, and both do not give two.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from normdiag.errors import NormdiagError
from normdiag.numerics.growth_fits import (
    Law,
    LawFit,
    fit_norms,
    fit_writes,
    iterate_other_fits,
)
from normdiag.numerics.growth_leaps import find_leaps, remove_factors, remove_summands

Numbers = npt.NDArray[np.float64]

KEPT = 2.0
"""A stream whose largest and smallest norm differ by less than this factor keeps its size."""
LEAD = 4.0
"""One law is preferred to another where its AICc is lower by this much."""
_LEAD_APART = 10.0
"""The lead where a start or leaps were taken out, and of the power law, which has the additive one
as a neighbour for every scatter of the first writes: that is a choice too."""
_FLAT = 1.25
"""Apart from leaps and behind a start, a stream keeps its size within this factor."""
MISFIT = 0.15
"""Root mean square of the residuals of log norms up to which a law describes them."""
LARGEST_MISFIT = math.log(1.5)
"""The largest residual of a log norm up to which a law describes all of them."""
_SAME_CURVE = 0.05
"""Two laws whose curves differ by less than 5 % say the same."""
_REACHED = 0.8
"""A bound is named where the stream has come this near to it."""
_LEAST_POINTS = 5
_LATEST_START = 2
_START_MISFIT = 0.75
"""A law of the whole stack predicts the first writes to 75 %; else they start the stream."""


@dataclass(frozen=True, slots=True)
class GrowthLeap:
    """One add that changes the norm by `factor`, far more than those around it."""

    add: int
    factor: float


@dataclass(frozen=True, slots=True)
class GrowthLaw:
    """The verdict on one stack."""

    law: Law | Literal["undecided"]
    rate: float | None
    """In the law's own unit; None for constant and undecided."""
    rate_error: float | None
    confidence: float | None
    """Akaike weight of the law among all; None for constant and undecided."""
    runner_up: Law | None
    """The second best law; of an undecided stack the best one."""
    fits: tuple[LawFit, ...]
    """All laws, best first; none for constant and with fewer than 5 adds."""
    start: int = 0
    """The add from which on the law holds: those before it start the stream."""
    leaps: tuple[GrowthLeap, ...] = ()
    """Behind the start, in order of depth."""

    @property
    def chosen_fit(self) -> LawFit:
        """That of the law, or the best one where none is named."""
        return next((fit for fit in self.fits if fit.law == self.law), self.fits[0])

    @property
    def misfit(self) -> float | None:
        """Root mean square of the law's residuals of log norms; None where none is named."""
        is_named = self.law not in ("constant", "undecided")
        return self.chosen_fit.misfit if is_named else None


UNDECIDED = GrowthLaw("undecided", None, None, None, None, ())


def fit_growth_law(norms: Numbers) -> GrowthLaw:
    """Choose the law of the norms (n,), one per add in the order of depth.

    Raises:
        NormdiagError: a norm is not a positive finite number.
    """
    norms = np.asarray(norms, dtype=np.float64)
    if not (np.isfinite(norms).all() and (norms > 0).all()):
        raise NormdiagError(
            f"no growth law fits norms from {norms.min()} to {norms.max()}",
            "only positive finite norms have a logarithm",
        )
    return _choose_behind_start(np.log(norms), _LATEST_START)


def _choose_behind_start(y: Numbers, cuts: int) -> GrowthLaw:
    """The law of all adds, or of those behind the write that starts the stream."""
    lead = LEAD if cuts == _LATEST_START else _LEAD_APART
    leaps = find_leaps(y)
    late = [add for add in leaps if add > _LATEST_START]
    if not cuts or not leaps or leaps[0] > _LATEST_START:
        return _choose_apart_from_leaps(y, late, lead)
    whole = _choose_apart_from_leaps(y, late, _LEAD_APART, only_writes=True)
    is_one_law = bool(whole.fits) and _predicts_start(y, whole.chosen_fit, leaps[0])
    for start in range(1, leaps[0] + 1):
        behind = _choose_behind_start(y[start:], cuts - 1)
        if behind.law not in ("constant", "undecided"):
            break
    if is_one_law and whole.law != "undecided":
        rivals = {"constant", "undecided", whole.law}
        return whole if behind.law in rivals else replace(UNDECIDED, leaps=whole.leaps)
    if behind.law == "constant" and (is_one_law or np.ptp(y[start:]) > math.log(_FLAT)):
        behind = replace(UNDECIDED, leaps=behind.leaps)
    return replace(
        behind,
        start=behind.start + start,
        leaps=tuple(replace(leap, add=leap.add + start) for leap in behind.leaps),
    )


def _predicts_start(y: Numbers, fit: LawFit, leap: int) -> bool:
    """Whether the increments up to the one behind `leap` follow the law."""
    curve = fit.curve
    if fit.law == "geometric":
        ratios = np.diff(y) / np.diff(curve)
    else:
        squares, fitted = np.exp(2 * (y - y[0])), np.exp(2 * (curve - curve[0]))
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = np.diff(squares) / np.diff(fitted)
    return bool(np.abs(ratios[: leap + 1] - 1).max() < _START_MISFIT)


def _choose_apart_from_leaps(
    y: Numbers, leaps: list[int], lead: float, *, only_writes: bool = False
) -> GrowthLaw:
    is_used = np.ones(max(len(y) - 1, 0), dtype=bool)
    if not leaps:
        return _choose_law(y, is_used, lead, only_writes=only_writes)
    is_used[np.array(leaps) - 1] = False
    without = [remove_factors(y, leaps)]
    if (summed := remove_summands(y, leaps)) is not None:
        without.append(summed)
    laws = [_choose_law(each, is_used, _LEAD_APART, only_writes=True) for each in without]
    growing = [law for law in laws if law.law not in ("constant", "undecided")]
    chosen = UNDECIDED
    if laws[0].law == "constant":  # behind a leap, the summand's rest magnifies what scatters
        chosen = laws[0]
    elif len({law.law for law in growing}) == 1:
        chosen = growing[0]
    steps = np.exp(np.diff(y))
    return replace(chosen, leaps=tuple(GrowthLeap(add, float(steps[add - 1])) for add in leaps))


def _choose_law(
    y: Numbers, is_used: npt.NDArray[np.bool_], lead: float, *, only_writes: bool
) -> GrowthLaw:
    if len(y) < _LEAST_POINTS or is_used.sum() < _LEAST_POINTS - 1:
        return UNDECIDED
    if np.ptp(y) < math.log(KEPT):  # too little growth to tell one law from another
        is_kept = is_used.all() or np.ptp(y) < math.log(_FLAT)
        return replace(UNDECIDED, law="constant") if is_kept else UNDECIDED
    fits = sorted(_fit_scatters(y, is_used, only_writes=only_writes), key=lambda fit: fit.aicc)
    best = _prefer_additive(fits)
    weights = {fit.law: math.exp((fits[0].aicc - fit.aicc) / 2) for fit in fits}
    rivals = [fit.aicc for fit in iterate_other_fits(best, fits, _SAME_CURVE)]
    lead = _LEAD_APART if best.law == "power" else lead
    if best.law == "constant" or min(rivals, default=math.inf) - best.aicc < lead:
        return replace(UNDECIDED, runner_up=best.law, fits=tuple(fits))
    if not (_describes_all(best) and _is_known(best)):
        return replace(UNDECIDED, runner_up=best.law, fits=tuple(fits))
    return GrowthLaw(
        law=best.law,
        rate=best.rate,
        rate_error=best.rate_error,
        confidence=weights[best.law] / sum(weights.values()),
        runner_up=next(fit.law for fit in fits if fit is not best),
        fits=tuple(fits),
    )


def _fit_scatters(y: Numbers, is_used: npt.NDArray[np.bool_], *, only_writes: bool) -> list[LawFit]:
    """The fits under the likelier scatter; where the two cannot be told apart, as with few adds,
    with the larger one of the two errors."""
    of_writes = fit_writes(y, is_used)
    if only_writes:
        return of_writes
    both = sorted((of_writes, fit_norms(y)), key=lambda fits: min(fit.aicc for fit in fits))
    lead = min(fit.aicc for fit in both[1]) - min(fit.aicc for fit in both[0])
    if lead >= _LEAD_APART:
        return both[0]
    errors = {fit.law: fit.rate_error for fit in both[1]}
    return [
        replace(fit, rate_error=max(fit.rate_error, errors.get(fit.law, 0.0))) for fit in both[0]
    ]


def _prefer_additive(fits: list[LawFit]) -> LawFit:
    """The best fit, but the additive one where the best has its curve: it has a cause, writes of
    one size that are independent of the stream."""
    best = fits[0]
    additive = next((fit for fit in fits if fit.law == "additive"), best)
    is_same = np.ptp(additive.curve - best.curve) < _SAME_CURVE
    return additive if is_same and additive.aicc - best.aicc < 2 * LEAD else best


def _describes_all(fit: LawFit) -> bool:
    return fit.misfit <= MISFIT and fit.largest_misfit <= LARGEST_MISFIT


def _is_known(fit: LawFit) -> bool:
    if fit.law == "bounded":
        return fit.reached >= _REACHED and 2 * fit.rate_error < fit.rate
    distance = fit.rate - 1 if fit.law == "geometric" else fit.rate
    return 2 * fit.rate_error < abs(distance)
