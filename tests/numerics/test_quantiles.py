"""Quantiles against numpy's: equal while exact, within the stated error beyond."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from normdiag.numerics import quantiles
from normdiag.numerics.quantiles import EXACT, RELATIVE_ERROR, BinCounts, QuantileSketch

SHARES = (0.0, 0.05, 0.5, 0.95, 1.0)
NUMBERS = st.floats(-1e12, 1e12, allow_subnormal=False)


def sketch_of(*parts: np.ndarray) -> QuantileSketch:
    sketch = QuantileSketch()
    for part in parts:
        sketch.update(part)
    return sketch


@given(st.lists(st.lists(NUMBERS, max_size=9), min_size=1, max_size=6))
@settings(deadline=None)
def test_equals_numpy_for_any_partition(parts: list[list[float]]) -> None:
    arrays = [np.array(part) for part in parts]
    updated, merged = sketch_of(*arrays), QuantileSketch()
    for array in reversed(arrays):
        merged.merge(sketch_of(array))
    whole = np.concatenate(arrays)
    if len(whole) == 0:
        assert all(math.isnan(q) for q in updated.compute(*SHARES))
        return
    expected = np.quantile(whole, SHARES)
    size = np.abs(whole).max()
    assert updated.compute(*SHARES) == pytest.approx(expected, rel=1e-14, abs=1e-15 * size)
    assert merged.compute(*SHARES) == updated.compute(*SHARES)
    assert updated.bins is None


def test_exact_up_to_the_stated_count() -> None:
    numbers = np.random.default_rng(0).lognormal(size=EXACT)
    sketch = sketch_of(*np.array_split(numbers, 7))
    assert sketch.compute(*SHARES) == tuple(np.quantile(numbers, SHARES))
    sketch.update(np.ones(1))
    assert sketch.bins is not None


def test_many_small_updates_are_joined() -> None:
    sketch = sketch_of(*(np.array([float(k)]) for k in range(1000)))
    assert len(sketch.parts) <= 65
    assert sketch.compute(0.5) == (499.5,)


def test_two_million_numbers_are_within_the_stated_error() -> None:
    normal = np.random.default_rng(0).normal(size=2_000_000)
    numbers = np.sign(normal) * np.exp(3 * np.abs(normal))
    sketch = sketch_of(*np.array_split(numbers, 7))
    shares = np.linspace(0, 1, 41)
    expected, computed = np.quantile(numbers, shares), np.array(sketch.compute(*shares))
    assert np.all(np.abs(computed - expected) <= RELATIVE_ERROR * np.abs(expected) * (1 + 1e-9))
    assert (computed[0], computed[-1]) == (numbers.min(), numbers.max())


def test_memory_does_not_grow_with_the_stream() -> None:
    generator, sketch, sizes = np.random.default_rng(0), QuantileSketch(), []
    for _ in range(40):
        sketch.update(generator.lognormal(sigma=3, size=50_000))
        sizes.append(len(pickle.dumps(sketch)))
    assert max(sizes) < 100_000
    assert sizes[-1] < 1.2 * sizes[4]


@pytest.fixture
def ten_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    """Streams of more than ten numbers are counted in bins."""
    monkeypatch.setattr(quantiles, "EXACT", 10)


@given(data=st.data())
@settings(deadline=None)
def test_any_partition_gives_the_same_bins(data: st.DataObject) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(quantiles, "EXACT", 10)
        whole = np.array(data.draw(st.lists(NUMBERS, min_size=11, max_size=60)))
        cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=5)))
        parts = np.split(whole, cuts)
        updated, merged = sketch_of(*parts), QuantileSketch()
        for part in data.draw(st.permutations(parts)):
            merged.merge(sketch_of(part))
        once = sketch_of(whole)
        assert updated.compute(*SHARES) == once.compute(*SHARES) == merged.compute(*SHARES)
        assert None not in (updated.bins, merged.bins, once.bins)


@pytest.mark.usefixtures("ten_exact")
def test_zeros_infinities_and_nan_in_bins() -> None:
    zeros = np.zeros(20)
    sketch = sketch_of(np.concatenate([zeros, -zeros, [-math.inf, 5.0, math.inf]]))
    assert sketch.bins is not None
    assert sketch.compute(0.0, 0.5, 1.0) == (-math.inf, 0.0, math.inf)
    sketch.update(np.array([math.nan]))
    assert all(math.isnan(q) for q in sketch.compute(0.5, 1.0))


def test_infinities_and_nan_while_exact() -> None:
    sketch = sketch_of(np.array([1.0, math.inf, math.inf]))
    assert sketch.compute(0.0, 0.25, 0.5, 1.0) == (1.0, math.inf, math.inf, math.inf)
    sketch.update(np.array([math.nan]))
    assert math.isnan(sketch.compute(0.0)[0])


@given(st.floats(1e-300, 1e300), st.booleans())
def test_a_bin_is_narrow(value: float, is_negative: bool) -> None:
    value = -value if is_negative else value
    bins = BinCounts.from_numbers(np.array([-math.inf, value, math.inf]))
    assert bins.order_statistic(1) == pytest.approx(value, rel=RELATIVE_ERROR)
