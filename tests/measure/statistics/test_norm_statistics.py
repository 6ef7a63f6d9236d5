"""Statistics of a norm's input, against numpy in float64, for any dtype, padding and chunking."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from normdiag.measure.statistics import rows as rows_module
from normdiag.measure.statistics.norm_statistics import NormRowStatistics, compute_norm_statistics
from normdiag.measure.statistics.slab import Slab

DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
EXACT = {"rtol": 1e-12, "atol": 1e-300}


def statistics_of(
    x: torch.Tensor, *, centred: bool, valid: torch.Tensor | None = None
) -> NormRowStatistics:
    return compute_norm_statistics(x, centred, valid, Slab())


def random_rows(
    seed: int, n: int = 7, features: int = 12, scale: float = 1.0, offset: float = 0.0
) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, features, generator=generator, dtype=torch.float64)
    return x * scale + offset


class TestAgainstNumpy:
    @pytest.mark.parametrize("dtype", DTYPES)
    @pytest.mark.parametrize("centred", [False, True])
    @settings(deadline=None, max_examples=50)
    @given(
        seed=st.integers(0, 1000), n=st.integers(1, 9), features=st.integers(1, 20),
        scale=st.sampled_from([1e-3, 1.0, 100.0]), offset=st.sampled_from([0.0, 3.0]),
    )  # fmt: skip
    def test_every_row(
        self, dtype: torch.dtype, centred: bool,
        seed: int, n: int, features: int, scale: float, offset: float,
    ) -> None:  # fmt: skip
        x = random_rows(seed, n, features, scale, offset).to(dtype)
        computed, exact = statistics_of(x, centred=centred), x.double().numpy()
        size = np.abs(exact).max() ** 2
        np.testing.assert_allclose(
            computed.mean, exact.mean(-1), rtol=1e-12, atol=1e-13 * size**0.5
        )
        expected = exact.var(-1) if centred else np.square(exact).mean(-1)
        np.testing.assert_allclose(computed.m2, expected, rtol=1e-12, atol=1e-14 * size)
        np.testing.assert_allclose(computed.square_sum, np.square(exact).sum(-1), **EXACT)
        np.testing.assert_allclose(
            computed.offset, exact.sum(0), rtol=1e-12, atol=1e-12 * size**0.5
        )
        np.testing.assert_allclose(computed.channel_max, np.abs(exact).max(0), **EXACT)

    def test_a_large_offset_does_not_swallow_the_variance(self) -> None:
        x = random_rows(0, 4, 64, 1e-3, 1e4)
        computed = statistics_of(x, centred=True)
        np.testing.assert_allclose(computed.m2, x.numpy().var(-1), rtol=1e-9)

    def test_half_precision_squares_do_not_overflow(self) -> None:
        x = torch.full((2, 8), 60000.0, dtype=torch.float16)
        computed = statistics_of(x, centred=False)
        np.testing.assert_allclose(computed.m2, [60000.0**2] * 2, rtol=1e-3)
        assert np.isfinite(computed.square_sum.numpy()).all()

    def test_a_bad_row_stays_in_its_row(self) -> None:
        x = random_rows(0)
        x[2, 3], x[4, 5] = float("nan"), float("inf")
        computed = statistics_of(x, centred=True)
        bad = ~np.isfinite(computed.m2.numpy())
        assert bad.tolist() == [False, False, True, False, True, False, False]


class TestPadding:
    @settings(deadline=None, max_examples=50)
    @given(bits=st.lists(st.booleans(), min_size=9, max_size=9), seed=st.integers(0, 100))
    def test_padded_rows_enter_no_sum(self, bits: list[bool], seed: int) -> None:
        x, keep = random_rows(seed, 9), np.array(bits)
        computed = statistics_of(x, centred=False, valid=torch.tensor(keep).nonzero().flatten())
        own = x.numpy()[keep]
        np.testing.assert_allclose(computed.offset, own.sum(0), rtol=1e-12, atol=1e-12)
        largest = np.abs(own).max(0) if keep.any() else np.zeros(x.shape[1])
        np.testing.assert_array_equal(computed.channel_max, largest)
        assert computed.vectors == keep.sum()

    def test_not_even_what_is_not_finite(self) -> None:
        x = random_rows(0, 3)
        x[1] = float("nan")
        computed = statistics_of(x, centred=True, valid=torch.tensor([0, 2]))
        assert np.isfinite(computed.offset.numpy()).all()
        assert np.isfinite(computed.channel_max.numpy()).all()


@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("elements", [1, 12, 25, 1 << 16])
def test_no_chunking_changes_a_number(
    monkeypatch: pytest.MonkeyPatch, centred: bool, elements: int
) -> None:
    x, valid = random_rows(1, 50), torch.arange(0, 50, 3)
    whole = statistics_of(x, centred=centred, valid=valid)
    monkeypatch.setattr(rows_module, "CHUNK_ELEMENTS", elements)
    parted = statistics_of(x, centred=centred, valid=valid)
    for name in ("mean", "m2", "square_sum", "channel_max", "offset"):
        np.testing.assert_allclose(getattr(parted, name), getattr(whole, name), rtol=1e-13)


def test_what_is_said_per_channel_can_be_taken_from_other_vectors() -> None:
    """The rows of a group norm are groups: its channels run along another axis."""
    x = random_rows(2, 6, 10)
    computed = statistics_of(x, centred=True)
    vectors = random_rows(3, 15, 4)
    computed.set_channel_statistics(vectors)
    np.testing.assert_array_equal(computed.channel_max, np.abs(vectors.numpy()).max(0))
    np.testing.assert_allclose(computed.offset, vectors.numpy().sum(0), rtol=1e-12)
    assert computed.vectors == 15
