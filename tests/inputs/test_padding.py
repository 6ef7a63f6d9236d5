"""Attention masks as token masks: True where a token is real."""

import pytest
import torch

from normdiag.inputs.batch import Batch
from normdiag.inputs.padding import DECODER, has_partial_mask, input_side, token_mask

MASK = [[1, 1, 0], [1, 1, 1]]


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.float32])
def test_a_mask_of_any_dtype(dtype):
    batch = Batch(inputs={"attention_mask": torch.tensor(MASK, dtype=dtype)})
    mask = token_mask(batch)
    assert mask.dtype == torch.bool
    assert mask.tolist() == [[True, True, False], [True, True, True]]


def test_each_side_has_its_own():
    batch = Batch(inputs={"decoder_attention_mask": torch.tensor(MASK)})
    assert token_mask(batch) is None
    assert token_mask(batch, DECODER).sum() == 5
    assert input_side("decoder_input_ids") == DECODER
    assert input_side("input_ids") == ""


@pytest.mark.parametrize(
    "mask",
    [None, torch.ones(2, 1, 3, 3), torch.ones(2, 3, device="meta")],
    ids=["none", "what attends to what", "no values"],
)
def test_no_mask_of_tokens(mask):
    assert token_mask(Batch(inputs={"attention_mask": mask})) is None


def test_a_mask_of_any_rank_may_leave_something_out():
    full, causal = torch.ones(1, 1, 3, 3), torch.ones(1, 1, 3, 3).tril()
    assert not has_partial_mask(Batch(inputs={"attention_mask": full}))
    assert has_partial_mask(Batch(inputs={"attention_mask": causal}))
    assert not has_partial_mask(Batch())
