"""Statistics of y = x + u, against numpy in float64, for any dtype, layout and padding."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from normdiag.measure.statistics import rows as rows_module
from normdiag.measure.statistics.add_statistics import (
    AddTokenStatistics,
    channel_median,
    compute_add_statistics,
)
from normdiag.measure.statistics.rows import Tokens
from normdiag.measure.statistics.slab import Slab

DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


def flat_tokens(n: int) -> Tokens:
    return Tokens(None, 1, n, 1, "batch")


def compute_statistics(
    x: torch.Tensor, u: torch.Tensor, tokens: Tokens | None = None, y: torch.Tensor | None = None
) -> AddTokenStatistics:
    return compute_add_statistics(
        x, u, x + u if y is None else y, tokens or flat_tokens(len(x)), Slab()
    )


def random_operands(seed: int, n: int, features: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x, u = torch.randn(2, n, features, generator=generator, dtype=torch.float64)
    return x, u


@pytest.mark.parametrize("dtype", DTYPES)
@settings(deadline=None, max_examples=50)
@given(seed=st.integers(0, 1000), n=st.integers(1, 9), features=st.integers(2, 20))
def test_every_row(dtype: torch.dtype, seed: int, n: int, features: int) -> None:
    x, u = (t.to(dtype) for t in random_operands(seed, n, features))
    y = x + u
    computed = compute_statistics(x, u)
    xd, ud, yd = (t.double().numpy() for t in (x, u, y))
    close = {"rtol": 1e-12, "atol": 1e-12}
    np.testing.assert_allclose(computed.skip_square, (xd * xd).sum(-1), **close)
    np.testing.assert_allclose(computed.branch_square, (ud * ud).sum(-1), **close)
    np.testing.assert_allclose(computed.out_square, (yd * yd).sum(-1), **close)
    np.testing.assert_allclose(computed.skip_branch, (xd * ud).sum(-1), **close)
    np.testing.assert_allclose(computed.skip_out, (xd * yd).sum(-1), **close)
    np.testing.assert_array_equal(computed.max_abs, np.abs(yd).max(-1))
    at = computed.max_channel.numpy()
    np.testing.assert_array_equal(np.abs(yd)[np.arange(n), at], np.abs(yd).max(-1))
    np.testing.assert_allclose(computed.median_abs, np.median(np.abs(yd), -1), rtol=1e-15)
    centred = yd - yd.mean(-1, keepdims=True)
    with np.errstate(invalid="ignore"):  # a constant row has no kurtosis
        kurtosis = (centred**4).mean(-1) / (centred**2).mean(-1) ** 2
    np.testing.assert_allclose(computed.kurtosis, kurtosis, rtol=1e-10)


class TestAcross:
    """What small angles are read from: the part of y across x."""

    @settings(deadline=None, max_examples=50)
    @given(exponent=st.integers(-140, 2), seed=st.integers(0, 100))
    def test_however_small(self, exponent: int, seed: int) -> None:
        x, u = random_operands(seed, 3, 16)
        u = u - (u * x).sum(-1, keepdim=True) / (x * x).sum(-1, keepdim=True) * x
        y = x + 10.0 ** (exponent / 10) * u
        computed = compute_statistics(x, y - x, y=y).orthogonal_norm.numpy()
        expected = 10.0 ** (exponent / 10) * u.norm(dim=-1).numpy()
        np.testing.assert_allclose(computed, expected, rtol=1e-12, atol=1e-15 * 10)

    def test_it_is_nothing_for_a_multiple_of_x(self) -> None:
        x, _ = random_operands(0, 3, 16)
        np.testing.assert_allclose(compute_statistics(x, -3 * x).orthogonal_norm, 0.0, atol=1e-14)


@settings(deadline=None, max_examples=50)
@given(
    values=st.lists(
        st.lists(st.floats(0, 1e4, width=16), min_size=5, max_size=5), min_size=1, max_size=4
    ),
    keep=st.integers(1, 5),
)
def test_the_median_over_channels_is_numpys(values: list[list[float]], keep: int) -> None:
    exact = np.array(values)[:, :keep]
    for dtype in (torch.float16, torch.float32, torch.float64):
        computed = channel_median(torch.tensor(exact, dtype=dtype))
        np.testing.assert_array_equal(computed.numpy(), np.median(exact, -1))


def pairs_by_hand(y: np.ndarray, sequence: np.ndarray, keep: np.ndarray) -> tuple[float, int]:
    """Sum of cosines, and the number, of all pairs of kept rows of one sequence."""
    total, count = 0.0, 0
    for i, j in itertools.combinations(np.flatnonzero(keep), 2):
        if sequence[i] == sequence[j]:
            total += y[i] @ y[j] / (np.linalg.norm(y[i]) * np.linalg.norm(y[j]))
            count += 1
    return total, count


class TestPairs:
    @pytest.mark.parametrize("order", ["batch", "time"])
    @settings(deadline=None, max_examples=50)
    @given(bits=st.lists(st.booleans(), min_size=8, max_size=8), seed=st.integers(0, 100))
    def test_within_a_sequence_without_padding(
        self, order: str, bits: list[bool], seed: int
    ) -> None:
        keep, rows = np.array(bits), np.arange(8)
        tokens = Tokens(torch.tensor(keep).nonzero().flatten(), 2, 4, 1, order)
        x, u = random_operands(seed, 8, 6)
        computed = compute_statistics(x, u, tokens)
        sequence = rows // 4 if order == "batch" else rows % 2
        total, count = pairs_by_hand((x + u).numpy(), sequence, keep)
        assert computed.pairs == count
        np.testing.assert_allclose(float(computed.pair_cosine), total, rtol=1e-10, atol=1e-12)

    def test_a_row_of_zeros_has_no_direction(self) -> None:
        x, u = random_operands(0, 4, 6)
        y = x + u
        y[1] = 0
        computed = compute_statistics(x, u, y=y)
        total, count = pairs_by_hand(y.numpy(), np.zeros(4), np.array([1, 0, 1, 1]))
        assert (computed.pairs, count) == (3, 3)
        np.testing.assert_allclose(float(computed.pair_cosine), total, rtol=1e-12)

    def test_several_rows_a_token_have_no_pairs(self) -> None:
        x, u = random_operands(0, 8, 6)
        assert compute_statistics(x, u, Tokens(None, 2, 2, 2, "batch")).pairs == 0


@pytest.mark.parametrize("elements", [1, 12, 25, 1 << 16])
def test_no_chunking_changes_a_number(monkeypatch: pytest.MonkeyPatch, elements: int) -> None:
    x, u = random_operands(1, 50, 10)
    tokens = Tokens(torch.arange(0, 50, 3), 2, 25, 1, "batch")
    whole = compute_statistics(x, u, tokens)
    monkeypatch.setattr(rows_module, "CHUNK_ELEMENTS", elements)
    parted = compute_statistics(x, u, tokens)
    for name in AddTokenStatistics.__dataclass_fields__.keys() - {"extremes"}:
        computed, expected = (torch.as_tensor(getattr(r, name)) for r in (parted, whole))
        np.testing.assert_allclose(computed, expected, rtol=1e-12, atol=1e-12)


def test_half_precision_norms_do_not_overflow() -> None:
    x = torch.full((2, 64), 30000.0, dtype=torch.float16)
    computed = compute_statistics(x, x.clone() / 2)
    np.testing.assert_allclose(computed.out_square, [64 * 45000.0**2] * 2, rtol=1e-3)


def test_a_bad_row_stays_in_its_row() -> None:
    x, u = random_operands(0, 5, 6)
    u[3, 2] = float("nan")
    computed = compute_statistics(x, u)
    finite = np.isfinite(computed.out_square.numpy())
    assert finite.tolist() == [True, True, True, False, True]
