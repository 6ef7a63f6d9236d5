"""The static pass counts what is stored; the digest changes with every bit of it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from normdiag.evidence.weights import StaticPass
from normdiag.measure.weights import check_tensors

NAN, INF = float("nan"), float("inf")
FLOATS = [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn]


def look(tensors: dict[str, torch.Tensor], *, vectors: bool = False) -> StaticPass:
    return check_tensors(tensors.items(), {}, keep_vectors=vectors)[0]


def digest(tensors: dict[str, torch.Tensor]) -> str:
    return check_tensors(tensors.items(), {}, keep_vectors=False)[1]


class TestCounts:
    @settings(deadline=None, max_examples=50)
    @given(
        st.lists(st.sampled_from([0.0, -0.0, 1.0, -2.5, NAN, INF, -INF]), min_size=1, max_size=12)
    )
    def test_of_one_tensor(self, values: list[float]) -> None:
        exact = np.array(values)
        found = look({"w": torch.tensor(values)}, vectors=True)
        (line,) = found.vectors
        assert line.nonfinite == (~np.isfinite(exact)).sum()
        assert line.nans == np.isnan(exact).sum()
        assert line.zeros == (exact == 0).sum()
        assert line.elements == found.elements == exact.size
        finite = np.abs(exact[np.isfinite(exact)])
        np.testing.assert_equal(line.max_abs, finite.max() if finite.size else NAN)
        bad = np.flatnonzero(~np.isfinite(exact))
        assert line.first_nonfinite == ((int(bad[0]),) if bad.size else None)

    def test_the_first_bad_element_is_told_by_its_index(self) -> None:
        w = torch.zeros(3, 4, 5)
        w[2, 0, 1] = w[1, 3, 2] = NAN
        (line,) = look({"w": w}).flagged
        assert line.first_nonfinite == (1, 3, 2)

    def test_over_all_tensors(self) -> None:
        found = look(
            {
                "a": torch.ones(3, 4),
                "b": torch.full((5,), NAN, dtype=torch.float16),
                "ids": torch.arange(7),
                "none": torch.empty(0),
                "c": torch.ones(2, dtype=torch.float16),
            }
        )
        assert (found.tensors, found.elements, found.nonfinite) == (3, 19, 5)
        assert found.dtypes == {"float32": 1, "float16": 2}
        assert [t.name for t in found.flagged] == ["b"]

    def test_a_matrix_of_zeros_is_worth_a_line_and_a_bias_of_zeros_is_not(self) -> None:
        found = look({"w": torch.zeros(3, 4), "b": torch.zeros(4), "fine": torch.eye(3)})
        assert [t.name for t in found.flagged] == ["w"]

    @pytest.mark.parametrize("dtype", FLOATS)
    def test_in_every_format(self, dtype: torch.dtype) -> None:
        w = torch.tensor([[0.0, 1.5, -3.0]]).to(dtype)
        (line,) = look({"w": w.repeat(4, 1).flatten()}, vectors=True).vectors
        assert (line.max_abs, line.zeros, line.nonfinite) == (3.0, 4, 0)
        assert line.dtype == str(dtype).removeprefix("torch.")

    def test_a_large_half_precision_value_does_not_overflow(self) -> None:
        (line,) = look({"g": torch.full((9,), 65504.0, dtype=torch.float16)}, vectors=True).vectors
        assert line.max_abs == 65504.0

    def test_what_it_was_loaded_as_stands_beside(self) -> None:
        stored = {"g": torch.ones(3, dtype=torch.float32)}
        loaded = {"g": torch.ones(3, dtype=torch.bfloat16)}
        found, _ = check_tensors(stored.items(), loaded, keep_vectors=True)
        assert found.vectors[0].loaded_dtype == "bfloat16"
        assert look(stored, vectors=True).vectors[0].loaded_dtype is None


class TestDigest:
    @settings(deadline=None, max_examples=50)
    @given(at=st.integers(0, 11), bit=st.integers(0, 31))
    def test_one_bit(self, at: int, bit: int) -> None:
        w = torch.arange(12, dtype=torch.float32).view(3, 4)
        other = w.clone()
        bits = other.view(-1).numpy().view(np.uint32)
        bits[at] ^= np.uint32(1 << bit)
        assert digest({"w": w}) != digest({"w": other})

    def test_name_shape_and_dtype(self) -> None:
        w = torch.zeros(2, 6)
        others = [
            {"v": w},
            {"w": w.view(3, 4)},
            {"w": w.view(torch.int32)},
            {"w": w, "v": w},
        ]
        assert len({digest({"w": w}), *map(digest, others)}) == 5

    def test_it_reads_what_a_tensor_holds_not_how_it_lies(self) -> None:
        w = torch.randn(4, 5)
        assert digest({"w": w}) == digest({"w": w.t().contiguous().t()})

    @settings(deadline=None, max_examples=20)
    @given(st.permutations(["a", "a.b", "a|b", "z"]))
    def test_the_order_of_the_tensors_does_not_count(self, order: list[str]) -> None:
        """A checkpoint in shards is the same as in one file."""
        tensors = {name: torch.full((2,), len(name) + ord(name[-1])) for name in order}
        assert digest(tensors) == digest(dict(sorted(tensors.items())))

    def test_but_which_name_has_which_values_does(self) -> None:
        a, b = torch.zeros(2), torch.ones(2)
        assert digest({"a": a, "b": b}) != digest({"a": b, "b": a})

    def test_the_same_tensors_give_the_same(self) -> None:
        tensors = {"a": torch.ones(3), "b": torch.arange(4)}
        assert digest(tensors) == digest({k: v.clone() for k, v in tensors.items()})

    def test_no_float_is_read_as_another(self) -> None:
        """Zero has two signs, and NaN many payloads."""
        assert digest({"w": torch.tensor([0.0])}) != digest({"w": torch.tensor([-0.0])})


def test_empty_tensors_are_named_and_not_counted() -> None:
    found = look({"a": torch.empty(0), "b": torch.empty(3, 0), "c": torch.ones(2)})
    assert found.empty == ("a", "b")
    assert (found.tensors, found.elements) == (1, 2)
    assert look({"ids": torch.empty(0, dtype=torch.int64)}).empty == ()


def test_a_buffer_that_is_stored_is_not_read_again() -> None:
    """Only what the checkpoint lacks is read from the model."""
    gone, rates = torch.ones(4), torch.ones(3)
    gone.untyped_storage().resize_(0)  # reading it is an error
    result, _ = check_tensors(
        [("stored", torch.ones(4))],
        {},
        keep_vectors=False,
        buffers={"stored": gone, "rates": rates},
    )
    assert set(result.fingerprints) == {"stored", "rates"}
