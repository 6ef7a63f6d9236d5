"""Phases of synthetic streams, and none where one law holds."""

from __future__ import annotations

import math
from dataclasses import asdict

import numpy as np
import numpy.typing as npt
import pytest

from normdiag.numerics.growth_law import fit_growth_law
from normdiag.numerics.growth_phases import GrowthPhase, find_growth_phases, fit_one_law
from tests.oracle.compare import assert_same
from tests.oracle.phases import phases_of

Numbers = npt.NDArray[np.float64]


def stream(steps: list[float], noise: float, seed: int = 0) -> Numbers:
    """The norms that grow by these factors one after the other."""
    y = np.cumsum([0.0, *np.log(steps)])
    return np.exp(y + noise * np.random.default_rng(seed).standard_normal(len(y)))


def growth_phases_of(norms: Numbers) -> tuple[GrowthPhase, ...]:
    return find_growth_phases(norms, fit_growth_law(norms))


THREE = [1.3] * 5 + [1.045] * 36 + [1.2] * 6


@pytest.mark.parametrize("noise", [0.01, 0.03, 0.05])
def test_three_phases_under_noise(noise: float) -> None:
    for seed in range(50):
        each = growth_phases_of(stream(THREE, noise, seed))
        assert len(each) == 3
        assert [p.factor for p in each] == pytest.approx([1.3, 1.045, 1.2], abs=0.1)
        assert each[1].factor == pytest.approx(1.045, abs=0.005)
        assert abs(each[1].first - 5.5) <= 1.5 and abs(each[2].first - 41.5) <= 2.5


def test_one_write_that_doubles_the_stream_is_a_step() -> None:
    before, behind = growth_phases_of(stream([1.01] * 20 + [2.2] + [1.02] * 20, 0.0))
    assert (before.first, before.last, behind.first, behind.last) == (0, 20, 21, 41)
    assert (before.factor, behind.factor, behind.step) == pytest.approx((1.01, 1.02, 2.2), rel=1e-9)
    assert before.step is None


def test_the_first_add_may_stand_alone() -> None:
    """Behind it no one law holds; where one does, it is the law that is stated, not phases."""
    first, *_ = growth_phases_of(stream([15.0] + [1.03] * 15 + [1.2] * 15, 0.0))
    assert (first.first, first.last, first.factor) == (0, 0, 1.0)
    assert growth_phases_of(stream([15.0] + [1.03] * 30, 0.0)) == ()


@pytest.mark.parametrize("noise", [0.0, 0.02, 0.05])
@pytest.mark.parametrize(
    "curve",
    [
        lambda n: n * math.log(1.045),
        lambda n: -n * math.log(1.1),
        lambda n: 0.5 * np.log1p(3 * n),
        lambda n: np.log1p(n),
        lambda n: 0.0 * n,
    ],
    ids=["geometric", "shrinking", "additive", "power", "constant"],
)
@pytest.mark.parametrize("adds", [5, 12, 48, 96])
def test_one_law_has_no_phases(curve, adds: int, noise: float) -> None:
    for seed in range(20):
        drawn = np.random.default_rng(seed).standard_normal(adds)
        assert (
            growth_phases_of(np.exp(curve(np.arange(adds, dtype=np.float64)) + noise * drawn)) == ()
        )


def test_a_law_that_is_nearly_right_is_let_be() -> None:
    """A wave of 4 % around it: a split follows it, and says nothing."""
    depth = np.arange(60)
    assert growth_phases_of(np.exp(0.045 * depth + 0.04 * np.sin(depth / 8))) == ()
    assert growth_phases_of(np.exp(0.045 * depth + 0.4 * np.sin(depth / 8))) != ()


def test_against_every_split() -> None:
    """Of streams in which steps, phases, noise and nothing at all are mixed."""
    with_phases = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        adds = rng.integers(5, 17)
        steps = rng.choice([0.02, 0.3, 0.8, -0.2], adds) * rng.choice([0, 1], adds)
        y = np.cumsum(steps) + rng.choice([0, 0.01, 0.1]) * rng.standard_normal(adds)
        misfit = fit_growth_law(np.exp(y)).misfit
        one_law = fit_one_law(y)
        tried = [] if misfit is not None and misfit < 0.05 else phases_of(y, *one_law)
        with_phases += bool(tried)
        assert_same({"phases": [asdict(p) for p in growth_phases_of(np.exp(y))]}, {"phases": tried})
    assert with_phases >= 5


def test_the_scale_does_not_matter() -> None:
    small, large = (
        growth_phases_of(1e-30 * stream(THREE, 0.02)),
        growth_phases_of(1e30 * stream(THREE, 0.02)),
    )
    assert [(p.first, p.last) for p in small] == [(p.first, p.last) for p in large]
    assert [p.factor for p in small] == pytest.approx([p.factor for p in large])


@pytest.mark.parametrize("adds", [1, 2, 4])
def test_too_few_adds(adds: int) -> None:
    assert growth_phases_of(np.exp(np.arange(adds, dtype=np.float64))) == ()
