"""Small results side by side in blocks: each its own memory, blocks shared."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from normdiag.measure.statistics.slab import Slab

CPU = torch.device("cpu")


@settings(deadline=None, max_examples=50)
@given(
    st.lists(
        st.tuples(
            st.lists(st.integers(0, 7), max_size=3),
            st.sampled_from([torch.float64, torch.float32, torch.int64]),
        ),
        max_size=30,
    )
)
def test_nothing_that_is_handed_out_overlaps(asked: list[tuple[list[int], torch.dtype]]) -> None:
    slab = Slab()
    tensors = [slab.empty_tensor(tuple(shape), dtype, CPU) for shape, dtype in asked]
    for i, tensor in enumerate(tensors):
        tensor.fill_(i)
    for i, (tensor, (shape, dtype)) in enumerate(zip(tensors, asked, strict=True)):
        assert tensor.shape == tuple(shape)
        assert tensor.dtype == dtype
        assert (tensor == i).all()


def test_small_results_share_a_block() -> None:
    slab = Slab()
    a, b = slab.empty_tensor((5,), torch.float64, CPU), slab.empty_tensor((5,), torch.float64, CPU)
    assert a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()


def test_one_that_is_larger_than_a_block_has_its_own() -> None:
    slab = Slab()
    small = slab.empty_tensor((5,), torch.float64, CPU)
    large = slab.empty_tensor((1 << 20,), torch.float64, CPU)
    assert large.numel() == 1 << 20
    assert small.untyped_storage().data_ptr() != large.untyped_storage().data_ptr()


def test_what_is_kept_is_a_copy() -> None:
    slab, x = Slab(), torch.randn(3, 4)
    kept = slab.store_copy(x)
    expected = x.clone()
    x.zero_()
    assert torch.equal(kept, expected)


def test_picked_rows_are_copies_in_order() -> None:
    slab, x = Slab(), torch.randn(6, 4)
    kept = slab.store_rows(x, torch.tensor([4, 0, 4]))
    expected = x[[4, 0, 4]].clone()
    x.zero_()
    assert torch.equal(kept, expected)
