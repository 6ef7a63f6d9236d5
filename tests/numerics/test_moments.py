"""Streaming moments against numpy's two-pass answer, for any split of the data."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from normdiag.numerics.moments import Moments, VectorMean

NUMBERS = st.floats(-1e6, 1e6)
STREAMS = st.lists(st.lists(NUMBERS, max_size=8), min_size=1, max_size=8)


def agrees(moments: Moments, values: np.ndarray) -> None:
    found = moments.result()
    size = np.abs(values).max(axis=0)
    assert found.count.numpy() == pytest.approx(len(values))
    assert found.mean.numpy() == pytest.approx(values.mean(axis=0), abs=1e-13 * size.max())
    assert found.variance.numpy() == pytest.approx(values.var(axis=0), abs=1e-13 * size.max() ** 2)
    assert found.min.numpy() == pytest.approx(values.min(axis=0), abs=0)
    assert found.max.numpy() == pytest.approx(values.max(axis=0), abs=0)


@given(STREAMS)
@settings(deadline=None)
def test_any_split_gives_the_same_statistics(parts: list[list[float]]) -> None:
    """One after the other, and as a tree of merges."""
    tensors = [torch.tensor(part, dtype=torch.float64) for part in parts]
    whole = torch.cat(tensors)
    if len(whole) == 0:
        return
    chain = Moments.empty()
    for part in tensors:
        chain = chain.update(part)
    agrees(chain, whole.numpy())
    leaves = [Moments.empty().update(part) for part in tensors]
    while len(leaves) > 1:
        leaves = [*leaves[2:], leaves[0].merge(leaves[1])]
    agrees(leaves[0], whole.numpy())


@given(st.lists(st.tuples(NUMBERS, st.booleans()), min_size=1, max_size=30))
@settings(deadline=None)
def test_where_leaves_elements_out(pairs: list[tuple[float, bool]]) -> None:
    values = torch.tensor([v for v, _ in pairs], dtype=torch.float64)
    where = torch.tensor([held for _, held in pairs])
    moments = Moments.empty().update(values, where)
    if where.any():
        agrees(moments, values[where].numpy())
    else:
        assert int(moments.result().count) == 0 and moments.result().mean.isnan()


def test_elements_with_a_shape() -> None:
    rows = torch.randn(50, 3, 4, generator=torch.Generator().manual_seed(0)).to(torch.bfloat16)
    moments = Moments.empty((3, 4)).update(rows[:20]).update(rows[20:20]).update(rows[20:])
    agrees(moments, rows.double().numpy())


def test_what_is_left_out_may_be_anything() -> None:
    values = torch.tensor([1.0, float("nan"), 3.0, float("inf")])
    kept = torch.tensor([True, False, True, False])
    agrees(Moments.empty().update(values, kept), np.array([1.0, 3.0]))
    mean = VectorMean.empty(1).update(values[:, None], kept).result()
    assert mean.tolist() == [2.0]


def test_a_small_variance_on_a_large_mean_keeps_its_digits() -> None:
    """Where the mean of squares less the square of the mean has none."""
    noise = torch.randn(4000, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    moments = Moments.empty()
    for part in (1e9 + noise).split(77):
        moments = moments.update(part)
    assert float(moments.result().variance) == pytest.approx(
        float(noise.var(correction=0)), rel=1e-6
    )


def test_nothing_is_nan() -> None:
    found = Moments.empty((2,)).merge(Moments.empty((2,))).result()
    assert found.count.tolist() == [0, 0]
    for field in (found.mean, found.variance, found.min, found.max):
        assert field.isnan().all()
    assert VectorMean.empty(3).result().isnan().all()


@given(st.lists(st.integers(0, 9), min_size=1, max_size=6), st.integers(0, 2**31))
@settings(deadline=None, max_examples=50)
def test_vector_mean_of_any_split(sizes: list[int], seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    parts: list[Tensor] = [torch.randn(n, 5, generator=generator) for n in (*sizes, 1)]
    chain = VectorMean.empty(5)
    for part in parts[:-1]:
        chain = chain.update(part, torch.ones(len(part), dtype=torch.bool))
    found = chain.merge(VectorMean.empty(5).update(parts[-1])).result()
    torch.testing.assert_close(found, torch.cat(parts).double().mean(0), rtol=0, atol=1e-14)
