"""An activation is one however it is spelled: on the stream, on a branch, and in a gate."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import normdiag
from normdiag.graph import Node
from normdiag.structure.activations import find_activated_value
from normdiag.structure.gates import is_gate
from tests.capture.recording import record_graph
from tests.structure.small_decoder import Block, Tensor, codes_of, inspect_blocks

Function = Callable[[Tensor], Tensor]
ACTIVATIONS: dict[str, Function] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "tanh": torch.tanh,
    "prelu": nn.PReLU(),
    "celu": F.celu,
    "softsign": F.softsign,
    "hardswish": F.hardswish,
    "relu6": F.relu6,
    "logsigmoid": F.logsigmoid,
    "x * sigmoid(x)": lambda x: x * torch.sigmoid(1.7 * x),
    "softshrink": F.softshrink,
}
OTHERS: dict[str, Function] = {
    "2 x": lambda x: 2 * x,
    "-x": lambda x: -x,
    "round": torch.round,
    "cast": lambda x: x.double(),
    "softmax": lambda x: x.softmax(-1),
    "x + x mean": lambda x: x + x.mean(-1, keepdim=True),
    "x max": lambda x: x.max(-1).values,
}


def _last_of(function: Function) -> tuple[Node, Node]:
    """The result in the graph, and the input."""
    graph = record_graph(function, torch.randn(2, 3, 4))
    return [n for n in graph if n.output == 0][-1], next(n for n in graph if n.op == "input")


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_an_activation_steps_back_to_what_it_is_of(name: str) -> None:
    last, x = _last_of(ACTIVATIONS[name])
    assert find_activated_value(last) in (x, last.parents[0])  # PReLU: of a view of x


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_linear_or_reads_other_elements_is_none(name: str) -> None:
    last, _ = _last_of(OTHERS[name])
    assert find_activated_value(last) is None


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_a_stream_passes_it(name: str) -> None:
    activation = ACTIVATIONS[name]

    def activated(b: Block, x: Tensor) -> Tensor:
        x = activation(x + b.n1(b.attn(x)))
        return activation(x + b.n2(b.mlp(x)))

    report = inspect_blocks(*[activated] * 3)
    assert [(s.layers, s.placement) for s in report.architecture.stacks] == [(3, "branch-output")]
    assert codes_of(report) <= {"ND405"}  # tokens do become alike behind a saturated function


class Stage(nn.Module):
    """Two maps and an activation beside a projection: the first block of a convolutional stage."""

    def __init__(self, before: int, after: int, activation: Function) -> None:
        super().__init__()
        self.first, self.second = (
            nn.Conv2d(before, after, 3, 1, 1),
            nn.Conv2d(after, after, 3, 1, 1),
        )
        self.project = nn.Conv2d(before, after, 1) if before != after else nn.Identity()
        self.norm, self.activation = nn.BatchNorm2d(after), activation

    def forward(self, x: Tensor) -> Tensor:
        update = self.norm(self.second(self.activation(self.first(x))))
        return self.activation(self.project(x) + update)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_a_branch_with_it_is_not_linear(name: str) -> None:
    widths = ((8, 8), (8, 8), (8, 16), (16, 16))
    model = nn.Sequential(nn.Conv2d(3, 8, 3), *(Stage(*w, ACTIVATIONS[name]) for w in widths))
    report = normdiag.inspect(
        model.eval(), inputs=torch.randn(2, 3, 8, 8), measure=("stream", "norms")
    )
    assert [a.is_projected for a in report.architecture.residual_adds] == [
        False,
        False,
        True,
        False,
    ]


@pytest.mark.parametrize(
    ("gate", "expected"),
    [
        (torch.sigmoid, True),
        (F.hardsigmoid, True),
        (lambda x: 1 - torch.sigmoid(x), True),
        (lambda x: -(torch.sigmoid(x) - 1), True),
        (lambda x: -torch.sigmoid(x) + 1, True),
        (lambda x: 1 + torch.sigmoid(x), False),
        (lambda x: torch.sigmoid(x) - 1, False),
        (lambda x: -torch.sigmoid(x), False),
        (torch.tanh, False),
    ],
)
def test_a_gate_lies_between_0_and_1(gate: Function, expected: bool) -> None:
    last, _ = _last_of(gate)
    assert is_gate(last) is expected
