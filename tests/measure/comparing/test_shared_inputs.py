"""The inputs of one model, given to another."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from normdiag.inputs.batch import Batch
from normdiag.loading.factory import wrap_module
from normdiag.measure.comparing.shared_inputs import share_inputs

IDS = torch.tensor([[1, 2, 3]])


class Named(nn.Module):
    """Takes ids and a mask by the names of transformers."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(10, 4)

    def forward(self, input_ids: Any, attention_mask: Any = None, use_cache: bool = True) -> Any:
        return self.table(input_ids)


class Plain(nn.Module):
    """Takes ids as its only argument."""

    def __init__(self, rows: int = 10) -> None:
        super().__init__()
        self.table = nn.Embedding(rows, 4)

    def forward(self, tokens: Any) -> Any:
        return self.table(tokens)


class Pictures(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 4)

    def forward(self, images: Any) -> Any:
        return self.first(images)


class Pairs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 4)

    def forward(self, left: Any, right: Any) -> Any:
        return self.first(left) + right


def batch(**inputs: Any) -> Batch:
    return Batch(inputs=inputs, rows=(0,), ids=((1, 2, 3),))


def load_module(model: nn.Module, *batches: Batch) -> Any:
    inputs, why = share_inputs(wrap_module(model), batches)
    assert why is None
    return inputs


def test_the_same_names_go_over_as_they_are() -> None:
    inputs = {"input_ids": IDS, "attention_mask": torch.ones(1, 3), "use_cache": False}
    (found,) = load_module(Named(), batch(**inputs))
    assert found.keys() == inputs.keys()
    assert torch.equal(found["input_ids"], IDS)


def test_token_ids_go_by_the_name_that_the_second_has() -> None:
    mask = torch.ones(1, 3, dtype=torch.long)
    (found,) = load_module(Plain(), batch(input_ids=IDS, attention_mask=mask, use_cache=False))
    assert found.keys() == {"tokens"}
    assert torch.equal(found["tokens"], IDS)
    (back,) = load_module(Named(), batch(tokens=IDS))
    assert torch.equal(back["input_ids"], IDS)


def test_a_single_tensor_goes_to_the_only_argument_in_its_dtype() -> None:
    images = torch.randn(2, 5, 4)
    made = Batch(inputs={"pixels": images}, rows=(0, 1))
    (found,) = load_module(Pictures().half(), made)
    assert torch.equal(found, images.half())


def refusal_of(model: nn.Module, made: Batch) -> str:
    inputs, why = share_inputs(wrap_module(model), (made,))
    assert inputs is None
    return str(why)


def test_a_vocabulary_that_is_too_small_is_named() -> None:
    why = refusal_of(Plain(rows=3), batch(input_ids=IDS))
    assert "the vocabularies differ: the first ran on token id 3" in why
    assert "has 3 rows" in why


def test_ids_are_nothing_for_a_model_that_embeds_none() -> None:
    assert "the second embeds none" in refusal_of(Pictures(), batch(input_ids=IDS))


def test_padding_is_not_forgotten() -> None:
    mask = torch.tensor([[1, 1, 0]])
    assert "input_ids, attention_mask" in refusal_of(
        Plain(), batch(input_ids=IDS, attention_mask=mask)
    )


def test_two_tensors_for_other_names_are_not_guessed() -> None:
    made = Batch(inputs={"a": torch.ones(1, 4), "b": torch.ones(1, 4)}, rows=(0,))
    why = refusal_of(Pairs(), made)
    assert "takes a, b" in why
    assert "left, right" in why


def test_what_was_not_run_has_nothing_to_share() -> None:
    assert share_inputs(wrap_module(Plain()), ()) == (None, None)
