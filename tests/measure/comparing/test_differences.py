"""Relative errors of sampled values and of learned vectors, against numpy."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from normdiag.evidence.differences import VectorDifference
from normdiag.measure.comparing.differences import compare_rows, measure_differences
from normdiag.measure.comparing.snapshot import Place, Snapshot, SnapshotAdd

GENERATOR = torch.Generator().manual_seed(0)


def random_rows(count: int = 5, features: int = 8) -> torch.Tensor:
    return torch.randn(count, features, dtype=torch.float64, generator=GENERATOR)


def test_errors_and_factor_are_those_of_numpy() -> None:
    a, b = random_rows(), random_rows()
    found = compare_rows(a, b)
    x, y = a.numpy(), b.numpy()
    errors = np.linalg.norm(x - y, axis=1) / np.linalg.norm(x, axis=1)
    factor = np.median((x * y).sum(1) / (x * x).sum(1))
    left = np.linalg.norm(factor * x - y, axis=1) / np.linalg.norm(factor * x, axis=1)
    assert found.median == pytest.approx(np.median(errors), rel=1e-12)
    assert found.max == pytest.approx(errors.max(), rel=1e-12)
    assert found.factor == pytest.approx(factor, rel=1e-12)
    assert found.after_scaling == pytest.approx(np.median(left), rel=1e-12)


def test_a_multiple_leaves_nothing() -> None:
    a = random_rows()
    found = compare_rows(a, -3 * a)
    assert found.median == pytest.approx(4)
    assert found.factor == pytest.approx(-3)
    assert found.after_scaling == pytest.approx(0, abs=1e-15)


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_what_is_not_finite_is_infinitely_far_and_like_itself(value: float) -> None:
    a = random_rows()
    b = a.clone()
    b[1, 2] = value
    assert compare_rows(a, b).max == math.inf
    assert compare_rows(b, a).max == math.inf
    assert compare_rows(a, b).median == 0
    b[:, 2] = value
    assert compare_rows(a, b).median == compare_rows(a, b).after_scaling == math.inf
    assert compare_rows(b, b).max == 0


def test_nothing_from_zero_is_infinitely_far() -> None:
    zero = torch.zeros(3, 4, dtype=torch.float64)
    assert compare_rows(zero, zero).max == 0
    assert compare_rows(zero, zero + 1).median == math.inf


def make_sample(places: list[Place], values: torch.Tensor) -> SnapshotAdd:
    return SnapshotAdd(places, values, values, values)


class TestRowsOfTheSameToken:
    """Rows are matched by token, in whatever order they were kept."""

    A = torch.arange(1.0, 4.0)[:, None].expand(3, 4)

    def test_in_another_order(self) -> None:
        places = [(0, 0, 0, 0), (0, 0, 5, 0), (1, 0, 0, 0)]
        a = Snapshot(adds={"x": make_sample(places, self.A)})
        b = Snapshot(adds={"y": make_sample(places[::-1], self.A.flip(0))})
        (found,) = measure_differences(a, b, [("x", "y")], []).adds.values()
        assert (found.tokens, found.out.max) == (3, 0)

    def test_of_some_tokens_only(self) -> None:
        a = Snapshot(adds={"x": make_sample([(0, 0, i, 0) for i in range(3)], self.A)})
        b = Snapshot(adds={"x": make_sample([(0, 0, i, 0) for i in (2, 7, 8)], self.A.flip(0))})
        (found,) = measure_differences(a, b, [("x", "x")], []).adds.values()
        assert (found.tokens, found.out.max) == (1, 0)

    def test_of_no_common_token_nothing_is_said(self) -> None:
        a = Snapshot(adds={"x": make_sample([(0, 0, i, 0) for i in range(3)], self.A)})
        b = Snapshot(adds={"x": make_sample([(0, 1, i, 0) for i in range(3)], self.A)})
        assert measure_differences(a, b, [("x", "x")], []).adds == {}

    def test_of_other_widths_nothing_is_said(self) -> None:
        places = [(0, 0, i, 0) for i in range(3)]
        a = Snapshot(adds={"x": make_sample(places, self.A)})
        b = Snapshot(adds={"x": make_sample(places, self.A[:, :2])})
        assert measure_differences(a, b, [("x", "x")], []).adds == {}


def vectors(a: torch.Tensor, b: torch.Tensor) -> VectorDifference:
    one, other = Snapshot(gains={"x": a}), Snapshot(gains={"y": b})
    return measure_differences(one, other, [], [("x", "y")]).gains["x"]


def test_the_channel_where_two_gains_differ_most() -> None:
    a = torch.tensor([1.0, -2.0, 0.5, 1e-9], dtype=torch.float64)
    b = torch.tensor([1.1, -2.5, 0.5, 0.0], dtype=torch.float64)
    found = vectors(a, b)
    assert found == VectorDifference(max_relative=pytest.approx(0.2), channel=1, a=-2.0, b=-2.5)


def test_near_zero_the_rms_is_the_measure() -> None:
    a = torch.tensor([1.0, 1.0, 1.0, 1e-6], dtype=torch.float64)
    found = vectors(a, torch.tensor([1.0, 1.0, 1.0, 3e-6], dtype=torch.float64))
    assert found.max_relative == pytest.approx(2e-6 / (1e-3 * (3 / 4) ** 0.5))


def test_a_gain_that_is_not_finite() -> None:
    a = torch.ones(3, dtype=torch.float64)
    b = torch.tensor([1.0, math.nan, 1.0], dtype=torch.float64)
    assert (vectors(a, b).max_relative, vectors(a, b).channel) == (math.inf, 1)
    assert vectors(b, b).max_relative == 0
