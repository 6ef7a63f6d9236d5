"""Values assumed on the meta device, against those of real tensors of ones."""

import pytest
import torch
from torch import nn

from normdiag.capture.meta_forward_mode import MetaForwardMode


def answer_on_meta(question):
    """The answer to `question` about a (2, 3) meta tensor, and the lines that read values."""
    with MetaForwardMode() as mode:
        answer = question(torch.empty(2, 3))
    return answer, list(mode.value_reads)


def test_new_tensors_have_no_values():
    total, lines = answer_on_meta(lambda x: x + torch.arange(3))
    assert total.is_meta
    assert lines == []
    assert not torch.ones(1).is_meta


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        (lambda x: bool((x > 0).all()), True),
        (lambda x: int(x.sum().long()), 0),
        (lambda x: x.sum().item(), 0.0),
    ],
)
def test_a_single_value(question, answer):
    assumed, lines = answer_on_meta(question)
    assert assumed == answer
    assert type(assumed) is type(answer)
    assert len(lines) == 1
    assert lines[0].startswith("test_meta_forward_mode.py:")


@pytest.mark.parametrize(
    "question",
    [
        lambda x: x.bool().nonzero(),
        lambda x: torch.stack(torch.where(x.bool())),
        lambda x: x[x.bool()],
        lambda x: x[:, x[0].bool()],
        lambda x: x.index_put((x.bool(),), x.sum()),
    ],
    ids=["nonzero", "where", "all dimensions", "the last dimension", "write"],
)
def test_a_mask_is_true_everywhere(question):
    assumed, lines = answer_on_meta(question)
    assert assumed.shape == question(torch.ones(2, 3)).shape
    assert len(lines) == 1


def test_tensors_with_values_say_what_they_hold():
    kept = torch.tensor([False, True])
    with MetaForwardMode() as mode:
        assert kept[0].item() is False
        assert kept.nonzero().tolist() == [[1]]
    assert mode.value_reads == {}


@pytest.mark.skipif(not hasattr(torch, "_grouped_mm"), reason="this torch has no such product")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_product_of_groups_is_of_the_dtype_of_its_factors(dtype):
    with MetaForwardMode():
        a, b = torch.empty(8, 16, dtype=dtype), torch.empty(2, 16, 32, dtype=dtype)
        product = torch._grouped_mm(a, b, offs=torch.empty(2, dtype=torch.int32))
    assert product.shape == (8, 32)
    assert product.dtype is dtype


def test_the_place_is_left_after_an_error():
    with pytest.raises(ValueError, match="the model's"), MetaForwardMode():
        raise ValueError("the model's")
    assert not nn.Linear(1, 1).weight.is_meta
