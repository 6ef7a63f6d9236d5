"""Tensors as rows: what is reduced last, which row is which token, which are padding."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from normdiag.measure.statistics.rows import (
    Sampler,
    TokenLayout,
    Tokens,
    chunk_size,
    chunk_starts,
    to_rows,
)


@st.composite
def shapes_and_axes(draw: st.DrawFn) -> tuple[list[int], tuple[int, ...]]:
    shape = draw(st.lists(st.integers(1, 5), min_size=1, max_size=4))
    axes = draw(st.sets(st.integers(-len(shape), -1), min_size=1))
    return shape, tuple(sorted(axes))


def make_mask(mask: list[list[int]]) -> torch.Tensor:
    return torch.tensor(mask) != 0


class TestToRows:
    @settings(deadline=None, max_examples=50)
    @given(shapes_and_axes())
    def test_any_axes_as_numpy_would(self, case: tuple[list[int], tuple[int, ...]]) -> None:
        shape, axes = case
        x = np.arange(np.prod(shape), dtype=np.float64).reshape(shape)
        kept = [a - len(shape) for a in range(len(shape)) if a - len(shape) not in axes]
        features = int(np.prod([shape[a] for a in axes]))
        expected = np.transpose(x, [*kept, *axes]).reshape(-1, features)
        np.testing.assert_array_equal(to_rows(torch.from_numpy(x), axes).numpy(), expected)

    @settings(deadline=None, max_examples=50)
    @given(
        batch=st.integers(1, 3), groups=st.integers(1, 4), each=st.integers(1, 3),
        positions=st.integers(1, 4),
    )  # fmt: skip
    def test_a_group_is_a_row(self, batch: int, groups: int, each: int, positions: int) -> None:
        x = torch.randn(batch, groups * each, positions)
        rows = to_rows(x, (-2, -1), groups)
        for n in range(batch):
            for g in range(groups):
                own = x[n, g * each : (g + 1) * each].reshape(-1)
                torch.testing.assert_close(rows[n * groups + g], own, rtol=0, atol=0)

    @settings(deadline=None, max_examples=50)
    @given(shapes_and_axes())
    def test_a_mean_over_rows_is_the_mean_over_the_axes(
        self, case: tuple[list[int], tuple[int, ...]]
    ) -> None:
        shape, axes = case
        x = torch.randn(shape, dtype=torch.float64)
        means = to_rows(x, axes).mean(-1)
        torch.testing.assert_close(means, x.mean(axes).reshape(-1))

    def test_last_axes_are_no_copy(self) -> None:
        x = torch.randn(2, 3, 4)
        assert to_rows(x, (-1,)).data_ptr() == x.data_ptr()

    def test_an_empty_batch_has_no_rows(self) -> None:
        assert to_rows(torch.empty(0, 3, 4), (-1,)).shape == (0, 4)


@settings(deadline=None, max_examples=50)
@given(rows=st.integers(0, 500_000), features=st.integers(1, 5000))
def test_chunks_cover_every_row_once(rows: int, features: int) -> None:
    step = chunk_size(features)
    starts = list(chunk_starts(rows, features))
    covered = [i for s in starts[-2:] for i in (s, min(s + step, rows))]
    assert starts == list(range(0, max(rows, 1), step))
    assert max(covered) == rows or rows == 0


def list_places(tokens: Tokens, rows: Iterable[int]) -> list[tuple[int, int]]:
    """Sequence and position of each row."""
    sequence, position = tokens.token_places(np.array([*rows], dtype=np.int64))
    return list(zip(sequence.tolist(), position.tolist(), strict=True))


def tokens_by_hand(mask: torch.Tensor, lead: str, heads: int) -> list[tuple[int, int]]:
    """Sequence and position of every row that is not padding, rows laid out as `lead` says."""
    b, s = mask.shape
    sizes = {"b": b, "s": s, "h": heads}
    computed = []
    for index in np.ndindex(*[sizes[axis] for axis in lead]):
        at = dict(zip(lead, index, strict=True))
        if mask[at["b"], at["s"]]:
            computed.append((at["b"], at["s"]))
    return computed


class TestLayout:
    @pytest.mark.parametrize("lead", ["bs", "sb", "bsh", "bhs"])
    @settings(deadline=None, max_examples=50)
    @given(data=st.data())
    def test_padding_anywhere(self, lead: str, data: st.DataObject) -> None:
        b, s, heads = 2, 5, 3
        bits = data.draw(st.lists(st.booleans(), min_size=b * s, max_size=b * s))
        mask = torch.tensor(bits).view(b, s)
        layout = TokenLayout(b, s, mask)
        tokens = layout.site_tokens(tuple({"b": b, "s": s, "h": heads}[a] for a in lead))
        count = b * s * (heads if "h" in lead else 1)
        valid = range(count) if tokens.valid is None else tokens.valid.tolist()
        assert list_places(tokens, valid) == tokens_by_hand(mask, lead, heads)
        assert tokens.rows_per_token == (heads if "h" in lead else 1)

    @settings(deadline=None, max_examples=50)
    @given(st.lists(st.booleans(), min_size=6, max_size=6))
    def test_tokens_in_one_flat_row(self, bits: list[bool]) -> None:
        mask = torch.tensor(bits).view(2, 3)
        tokens = TokenLayout(2, 3, mask).site_tokens((6,))
        valid = range(6) if tokens.valid is None else tokens.valid.tolist()
        assert list_places(tokens, valid) == tokens_by_hand(mask, "bs", 1)

    def test_nothing_is_left_out_without_padding(self) -> None:
        assert TokenLayout(2, 3, None).site_tokens((2, 3)).valid is None
        assert (
            TokenLayout(2, 3, make_mask([[1, 1, 1], [1, 1, 1]])).site_tokens((2, 3)).valid is None
        )

    @pytest.mark.parametrize("lead", [(0,), (0, 3), (0, 3, 2), (3, 0)])
    def test_an_expert_that_is_sent_no_token(self, lead: tuple[int, ...]) -> None:
        tokens = TokenLayout(0, 3, None).site_tokens(lead)
        assert tokens.valid is None
        assert list_places(tokens, []) == []
        assert tokens.row_places(np.empty(0, dtype=np.int64)).shape == (0, 3)

    def test_what_has_another_shape_than_the_tokens_has_no_padding(self) -> None:
        layout = TokenLayout(2, 5, make_mask([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]]))
        tokens = layout.site_tokens((2, 7))
        assert tokens.valid is None
        assert list_places(tokens, [8]) == [(1, 1)]

    def test_groups_count_as_rows_of_a_token(self) -> None:
        layout = TokenLayout(2, 3, make_mask([[1, 1, 0], [1, 1, 1]]))
        tokens = layout.site_tokens((2, 3), groups=2)
        assert tokens.rows_per_token == 2
        assert tokens.valid is not None
        assert tokens.valid.tolist() == [0, 1, 2, 3, 6, 7, 8, 9, 10, 11]


class TestSampler:
    @settings(deadline=None, max_examples=50)
    @given(size=st.integers(1, 30), count=st.integers(1, 100), seed=st.integers(0, 5))
    def test_a_sample_is_sorted_distinct_and_no_padding(
        self, size: int, count: int, seed: int
    ) -> None:
        valid = torch.arange(0, count, 2)
        picked = Sampler(size, seed).sample_rows(count, valid, torch.device("cpu")).tolist()
        assert picked == sorted(set(picked))
        assert set(picked) <= set(valid.tolist())
        assert len(picked) == min(size, len(valid))

    def test_every_site_gets_the_same_rows(self) -> None:
        one, other = Sampler(4, 0), Sampler(4, 0)
        device = torch.device("cpu")
        assert (
            one.sample_rows(50, None, device).tolist() == one.sample_rows(50, None, device).tolist()
        )
        assert (
            one.sample_rows(50, None, device).tolist()
            == other.sample_rows(50, None, device).tolist()
        )

    def test_another_seed_gives_others(self) -> None:
        device = torch.device("cpu")
        seen = {tuple(Sampler(4, s).sample_rows(50, None, device).tolist()) for s in range(8)}
        assert len(seen) > 1

    def test_no_size_is_all(self) -> None:
        assert Sampler(None, 0).sample_rows(7, None, torch.device("cpu")).tolist() == list(range(7))
