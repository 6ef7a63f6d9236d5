"""Quantiles against numpy's: equal while exact, within the stated error beyond."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from normdiag.numerics import quantiles
from normdiag.numerics.quantiles import Bins, Values

SHARES = (0.0, 0.05, 0.5, 0.95, 1.0)
NUMBERS = st.floats(-1e12, 1e12, allow_subnormal=False)


@given(st.lists(st.lists(NUMBERS, max_size=9), min_size=1, max_size=6))
@settings(deadline=None)
def test_equals_numpy_for_any_split(parts: list[list[float]]) -> None:
    values, merged = Values(), Values()
    for part in parts:
        values = values.update(torch.tensor(part, dtype=torch.float64))
        merged = Values().update(torch.tensor(part, dtype=torch.float64)).merge(merged)
    whole = np.array([value for part in parts for value in part])
    if len(whole) == 0:
        assert all(math.isnan(q) for q in values.quantiles(*SHARES))
        return
    wanted = np.quantile(whole, SHARES)
    size = np.abs(whole).max()
    assert values.quantiles(*SHARES) == pytest.approx(wanted, rel=1e-14, abs=1e-15 * size)
    assert merged.quantiles(*SHARES) == values.quantiles(*SHARES)
    assert values.relative_error == 0


def test_many_small_updates_are_gathered() -> None:
    values = Values()
    for k in range(1000):
        values = values.update(torch.tensor([float(k), -1.0]), torch.tensor([True, False]))
    assert len(values.parts) <= 65
    assert values.quantiles(0.5) == (499.5,)


def test_two_million_values_are_within_the_stated_error() -> None:
    generator = torch.Generator().manual_seed(0)
    data = torch.randn(2_000_000, generator=generator, dtype=torch.float64)
    data = data.sign() * (3 * data.abs()).exp()
    values = Values()
    for part in data.split(300_000):
        values = values.update(part)
    assert values.relative_error == 2**-11
    shares = np.linspace(0, 1, 41)
    wanted = np.quantile(data.numpy(), shares)
    found = np.array(values.quantiles(*shares))
    assert np.all(np.abs(found - wanted) <= values.relative_error * np.abs(wanted) * (1 + 1e-9))
    assert (found[0], found[-1]) == (float(data.min()), float(data.max()))


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Streams of more than ten values are too long."""
    monkeypatch.setattr(quantiles, "EXACT", 10)


@given(data=st.data())
@settings(deadline=None)
def test_any_split_gives_the_same_sketch(data: st.DataObject) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(quantiles, "EXACT", 10)
        whole = data.draw(st.lists(NUMBERS, min_size=11, max_size=60))
        cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=5)))
        parts = np.split(np.array(whole), cuts)
        chain, tree = Values(), Values()
        for part in parts:
            chain = chain.update(torch.from_numpy(part))
            tree = Values().update(torch.from_numpy(part)).merge(tree)
        once = Values().update(torch.tensor(whole, dtype=torch.float64))
        assert chain.quantiles(*SHARES) == once.quantiles(*SHARES) == tree.quantiles(*SHARES)
        assert chain.relative_error == tree.relative_error == once.relative_error == 2**-11


@pytest.mark.usefixtures("short")
def test_what_is_left_out_does_not_count_towards_the_limit() -> None:
    values = Values().update(torch.arange(100.0), torch.arange(100) < 9)
    assert values.relative_error == 0
    assert values.quantiles(0.5) == (4.0,)


@pytest.mark.usefixtures("short")
def test_zeros_infinities_and_nan_in_bins() -> None:
    zeros = torch.zeros(20)
    values = Values().update(torch.cat([zeros, -zeros, torch.tensor([-math.inf, 5.0, math.inf])]))
    assert values.relative_error > 0
    assert values.quantiles(0.0, 0.5, 1.0) == (-math.inf, 0.0, math.inf)
    assert all(math.isnan(q) for q in values.update(torch.tensor([math.nan])).quantiles(0.5, 1.0))


def test_infinities_and_nan_while_exact() -> None:
    values = Values().update(torch.tensor([1.0, math.inf, math.inf]))
    assert values.quantiles(0.0, 0.25, 0.5, 1.0) == (1.0, math.inf, math.inf, math.inf)
    assert math.isnan(values.update(torch.tensor([math.nan])).quantiles(0.0)[0])


@given(st.floats(1e-300, 1e300), st.booleans())
def test_a_bin_is_narrow(value: float, is_negative: bool) -> None:
    value = -value if is_negative else value
    bins = Bins.of(np.array([-math.inf, value, math.inf]))
    assert bins.order_statistic(1) == pytest.approx(value, rel=2**-11)
