"""Which part of a model a parameter belongs to, and which gain or bias it is."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from normdiag.structure.parameter_groups import group_parameters, single_parameter_name
from tests.measure.forwards import accumulate_forward

WIDTH = 8


class Layer(nn.Module):
    def __init__(self, shared: nn.Linear | None = None) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(WIDTH)
        self.inner = nn.Linear(WIDTH, WIDTH)
        self.shared = shared

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.inner(self.norm(x))
        return x + (h if self.shared is None else self.shared(h))


class Body(nn.Module):
    def __init__(self, layers: list[Layer]) -> None:
        super().__init__()
        self.start = nn.Linear(WIDTH, WIDTH)
        self.rows = nn.ModuleList(layers)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.start(x)
        for layer in self.rows:
            x = layer(x)
        return x


class Model(nn.Module):
    """A parameter of its own, a body two modules deep, and a head that is never called."""

    def __init__(self, layers: list[Layer]) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(WIDTH))
        self.trunk = nn.ModuleDict({"body": Body(layers)})
        self.head = nn.Linear(WIDTH, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.trunk["body"](x * self.scale)


def groups(model: nn.Module) -> dict[str, str]:
    assembly = accumulate_forward(model, torch.randn(2, 3, WIDTH))
    names = [name for name, _ in model.named_parameters()]
    return group_parameters(assembly.first_pass.graph, assembly.sites.stacks, names)


def test_layers_own_what_runs_in_them_and_the_rest_goes_by_outermost_modules() -> None:
    found = groups(Model([Layer(), Layer()]))
    assert set(found.values()) == {
        "scale", "head", "trunk.body.start", "trunk.body.rows.0", "trunk.body.rows.1",
    }  # fmt: skip
    assert found["scale"] == "scale" and found["head.bias"] == "head"
    assert found["trunk.body.rows.1.norm.weight"] == "trunk.body.rows.1"


def test_what_several_layers_use_belongs_to_none_of_them() -> None:
    shared = nn.Linear(WIDTH, WIDTH)
    found = groups(Model([Layer(shared), Layer(shared)]))
    assert found["trunk.body.rows.0.shared.weight"] not in {
        "trunk.body.rows.0", "trunk.body.rows.1",
    }  # fmt: skip
    assert found["trunk.body.rows.0.inner.weight"] == "trunk.body.rows.0"


def test_one_layer_that_runs_again_and_again_is_one_group() -> None:
    layer = Layer()
    found = groups(Model([layer, layer, layer]))
    assert {g for n, g in found.items() if ".rows." in n} == {"trunk.body.rows.0"}


class Gained(nn.Module):
    """Norms with gains of all kinds, each on its own way to the sum."""

    def __init__(self) -> None:
        super().__init__()
        self.w, self.b = nn.Parameter(torch.randn(WIDTH)), nn.Parameter(torch.randn(WIDTH))
        self.way = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        def normed(y: torch.Tensor) -> torch.Tensor:
            return y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-6)

        x = x + self.way(normed(x) * (1 + self.w))
        x = x + self.way(normed(x) * self.w.float() + self.b)
        return x + self.way(normed(x) * (2 * self.w))


@pytest.mark.parametrize(
    ("place", "gain", "bias"), [(0, "w", None), (1, "w", "b"), (2, None, None)]
)
def test_the_parameter_behind_a_gain(place: int, gain: str | None, bias: str | None) -> None:
    """Where the derivative by the gain is that by the parameter: not where it is doubled."""
    assembly = accumulate_forward(Gained(), torch.randn(2, 3, WIDTH))
    norm = list(assembly.sites.norms)[place]
    assert single_parameter_name(norm.gains) == gain and single_parameter_name(norm.biases) == bias
