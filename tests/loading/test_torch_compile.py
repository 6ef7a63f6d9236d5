"""A compiled model is the model that was compiled."""

from __future__ import annotations

import torch
from torch import nn

from normdiag.loading.factory import wrap_module
from normdiag.loading.module_state import iterate_module_state
from normdiag.loading.torch_compile import unwrap_compiled


def test_a_plain_model_is_left_alone() -> None:
    model = nn.Linear(2, 2)
    assert unwrap_compiled(model) == (model, ())


def test_a_wrapper_is_removed_and_noted() -> None:
    model = nn.Sequential(nn.Linear(2, 2))
    original, notes = unwrap_compiled(torch.compile(model))
    assert original is model
    assert len(notes) == 1 and "torch.compile" in notes[0]
    loaded = wrap_module(torch.compile(model))
    assert loaded.model is model
    assert (loaded.class_name, loaded.notes) == ("Sequential", notes)


def test_compiled_parts_are_noted() -> None:
    model = nn.Sequential(nn.Linear(2, 2), torch.compile(nn.Linear(2, 2)))
    assert unwrap_compiled(model)[0] is model
    assert len(unwrap_compiled(model)[1]) == 1
    in_place = nn.Linear(2, 2)
    in_place.compile()
    assert len(unwrap_compiled(in_place)[1]) == 1


def test_module_state_is_the_state_dict() -> None:
    model = nn.BatchNorm1d(3)
    actual = dict(iterate_module_state(model))
    assert actual.keys() == model.state_dict().keys()
    assert all(torch.equal(actual[name], value) for name, value in model.state_dict().items())
