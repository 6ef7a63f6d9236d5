"""Which module runs: every call its own frame, whatever is raised."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn.modules import module as hooks

from normdiag.capture.scopes import Scopes
from tests.capture.recording import find_nodes, record_graph


class Shared(nn.Module):
    """One layer run `times` times, as in ALBERT."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.layer = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
        self.times = times

    def forward(self, x):
        for _ in range(self.times):
            x = self.layer(x)
        return x


class Failing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fine = nn.Linear(4, 4)
        self.bad = nn.Linear(3, 3)

    def forward(self, x):
        try:
            self.bad(x)
        except RuntimeError:
            return self.fine(x)
        raise AssertionError("bad accepted a row of 4")


def global_hooks() -> list[int]:
    return [len(hooks._global_forward_pre_hooks), len(hooks._global_forward_hooks)]


def test_each_call_of_a_shared_module_is_a_frame_of_its_own() -> None:
    graph = record_graph(Shared(3), torch.randn(2, 4))
    frames = [n.frame for n in find_nodes(graph, "tanh")]
    assert [f.id for f in frames] == ["layer.1", "layer.1@1", "layer.1@2"]
    assert [f.parent.id for f in frames] == ["layer", "layer@1", "layer@2"]
    assert graph.calls["layer.0"] == 3


def test_the_chain_runs_from_the_model_to_the_innermost_module() -> None:
    (node, *_) = find_nodes(record_graph(Shared(1), torch.randn(2, 4)), "tanh")
    assert [f.path for f in node.frame.enclosing_frames()] == ["", "", "layer", "layer.1"]
    assert [f.label for f in node.frame.enclosing_frames()][1:] == ["Shared", "Sequential", "Tanh"]


def test_one_module_under_two_names_goes_by_its_first() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = nn.Tanh()
            self.b = self.a

        def forward(self, x):
            return self.b(self.a(x))

    frames = [n.frame for n in find_nodes(record_graph(Tied(), torch.randn(2, 4)), "tanh")]
    assert [f.id for f in frames] == ["a", "a@1"]


def test_a_module_created_during_the_forward_runs_in_its_creator() -> None:
    class Making(nn.Module):
        def forward(self, x):
            return nn.Tanh()(x)

    class Holder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Making()

        def forward(self, x):
            return self.inner(x)

    (node,) = find_nodes(record_graph(Holder(), torch.randn(2, 4)), "tanh")
    assert node.frame.path == "inner"


def test_a_module_that_raised_is_left() -> None:
    graph = record_graph(Failing(), torch.randn(2, 4))
    (product,) = find_nodes(graph, "addmm")
    assert product.frame.path == "fine"
    assert [f.path for f in product.frame.enclosing_frames()] == ["", "", "fine"]


@pytest.mark.parametrize("fails", [False, True])
def test_no_hook_is_left_behind(fails: bool) -> None:
    model, before = Shared(2), global_hooks()
    try:
        with Scopes(model):
            assert global_hooks() == [n + 1 for n in before]
            model(torch.randn(2, 3 if fails else 4))
    except RuntimeError:
        assert fails
    assert global_hooks() == before
    for module in model.modules():
        assert not module._forward_hooks
        assert not module._forward_pre_hooks


def test_outside_a_call_the_model_itself_runs() -> None:
    model = Shared(1)
    with Scopes(model) as scopes:
        model(torch.randn(2, 4))
        assert scopes.current_frame.path == ""
        assert scopes.current_frame.parent is None
