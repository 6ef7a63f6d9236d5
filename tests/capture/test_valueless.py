"""What the meta device is told about values, against what real tensors of ones would say."""

import pytest
import torch
from torch import nn

from normdiag.capture.valueless import Valueless


def asked(question):
    """The answer to `question` about a (2, 3) tensor without values, and the lines that asked."""
    with Valueless() as mode:
        answer = question(torch.empty(2, 3))
    return answer, list(mode.asked)


def test_what_is_made_meanwhile_has_no_values():
    made, lines = asked(lambda x: x + torch.arange(3))
    assert made.is_meta
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
    told, lines = asked(question)
    assert told == answer
    assert type(told) is type(answer)
    assert len(lines) == 1
    assert lines[0].startswith("test_valueless.py:")


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
def test_a_mask_is_set_everywhere(question):
    told, lines = asked(question)
    assert told.shape == question(torch.ones(2, 3)).shape
    assert len(lines) == 1


def test_tensors_with_values_say_what_they_hold():
    kept = torch.tensor([False, True])
    with Valueless() as mode:
        assert kept[0].item() is False
        assert kept.nonzero().tolist() == [[1]]
    assert mode.asked == {}


@pytest.mark.skipif(not hasattr(torch, "_grouped_mm"), reason="this torch has no such product")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_product_of_groups_is_of_the_dtype_of_its_factors(dtype):
    with Valueless():
        a, b = torch.empty(8, 16, dtype=dtype), torch.empty(2, 16, 32, dtype=dtype)
        made = torch._grouped_mm(a, b, offs=torch.empty(2, dtype=torch.int32))
    assert made.shape == (8, 32)
    assert made.dtype is dtype


def test_the_place_is_left_after_an_error():
    with pytest.raises(ValueError, match="the model's"), Valueless():
        raise ValueError("the model's")
    assert not nn.Linear(1, 1).weight.is_meta
