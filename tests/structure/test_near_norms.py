"""Near-norms are named by their statistic, and what they do to sizes is measured."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import normdiag
from tests.structure.near_norm_spellings import SPELLINGS, Function

X = torch.randn(2, 6, 32, generator=torch.Generator().manual_seed(0), dtype=torch.float64) + 0.7


class Scaling(nn.Module):
    def __init__(self, function: Function, has_gain: bool) -> None:
        super().__init__()
        self.function = function
        self.weight = nn.Parameter(torch.linspace(0.5, 1.5, 32)) if has_gain else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.function(x)
        return y if self.weight is None else y * self.weight


class Layer(nn.Module):
    def __init__(self, function: Function, has_gain: bool) -> None:
        super().__init__()
        self.norm = Scaling(function, has_gain)
        self.up, self.down = nn.Linear(32, 64), nn.Linear(64, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Net(nn.Module):
    def __init__(self, function: Function, *, has_gain: bool = True) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            self.start = nn.Linear(32, 32)
            self.layers = nn.ModuleList(Layer(function, has_gain) for _ in range(3))
            self.norm = Scaling(function, has_gain)
            self.head = nn.Linear(32, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.start(x)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


@pytest.mark.parametrize("has_gain", [True, False], ids=["gain", "no gain"])
@pytest.mark.parametrize("name", SPELLINGS)
def test_a_spelling(name: str, has_gain: bool) -> None:
    spelling = SPELLINGS[name]
    model = Net(spelling.function, has_gain=has_gain).double().eval()
    inputs: list[torch.Tensor] = []
    hook = model.norm.register_forward_pre_hook(lambda _, args: inputs.append(args[0]))
    report = normdiag.inspect(model, inputs=X, measure=["stream", "norms"])
    hook.remove()
    norms = report.architecture.norms
    assert [n.id for n in norms] == [*(f"layers.{i}.norm" for i in range(3)), "norm"]
    assert {n.kind for n in norms} == {"other"}
    assert {n.scaling for n in norms} == {spelling.scaling}
    assert {n.is_centred for n in norms} == {spelling.is_centred}
    assert all((n.gain is not None) == has_gain for n in norms)
    (stack,) = report.architecture.stacks
    assert (stack.placement, stack.norm_kind, stack.final_norm) == ("pre", "other", "norm")

    measured = report.measurements.near_norms["norm"]
    x = inputs[0].detach().reshape(-1, 32)
    sizes, doubled = (spelling.function(k * x).square().mean(-1).sqrt() for k in (1, 2))
    assert measured.size_exponent == pytest.approx(spelling.exponent, abs=1e-4)
    assert measured.size_exponent == pytest.approx(
        float((doubled / sizes).log2().quantile(0.5)), abs=1e-9
    )
    assert measured.output_rms.min == pytest.approx(float(sizes.min()), rel=1e-9)
    assert measured.output_rms.max == pytest.approx(float(sizes.max()), rel=1e-9)
    assert measured.output_rms.median == pytest.approx(float(sizes.quantile(0.5)), rel=1e-9)


HEALTHY: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "softmax written out": lambda x: (x - x.amax(-1, keepdim=True)).exp()
    / (x - x.amax(-1, keepdim=True)).exp().sum(-1, keepdim=True),
    "gates that add up to 1": lambda x: x.sigmoid() / x.sigmoid().sum(-1, keepdim=True),
    "chosen experts": lambda x: (k := x.softmax(-1).topk(4).values)
    / k.sum(-1, keepdim=True),
    "positive features": lambda x: (F.elu(x) + 1) / (F.elu(x) + 1).sum(-1, keepdim=True),
    "normed scores": lambda x: (s := x @ x.transpose(1, 2)) / s.abs().sum(-1, keepdim=True),
    "integers": lambda x: (x * (127 / x.abs().amax(-1, keepdim=True))).round()
    / (127 / x.abs().amax(-1, keepdim=True)),
    "float8": lambda x: (x * (448 / x.abs().amax(-1, keepdim=True)))
    .to(torch.float8_e4m3fn).to(x.dtype),
    "layer norm": lambda x: (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 1e-6),
    "moments": lambda x: x * torch.rsqrt(x.var(-1, keepdim=True) + 1e-6)
    - x.mean(-1, keepdim=True) * torch.rsqrt(x.var(-1, keepdim=True) + 1e-6),
    "rms": lambda x: x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6),
    "a mean over tokens": lambda x: x / x.abs().mean(1, keepdim=True),
    "clipped to a length": lambda x: x
    * (2 / (x.norm(dim=-1, keepdim=True) + 1e-6)).clamp(max=1.0),
    "hard choices": lambda x: (
        c := (p := x.softmax(-1)).round() - p.detach() + p
    ) / (c.sum(-1, keepdim=True) + 1e-6),
    "a gate": lambda x: x * x.mean(-1, keepdim=True).sigmoid(),
}  # fmt: skip


class Sandwiched(nn.Module):
    """`function` between two projections."""

    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            self.up, self.norm = nn.Linear(32, 32), nn.LayerNorm(32)
            self.down = nn.LazyLinear(32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(2):
            x = x + self.down(self.function(self.up(self.norm(x))))
        return x


@pytest.mark.parametrize("name", HEALTHY)
def test_what_is_no_near_norm(name: str) -> None:
    model = Sandwiched(HEALTHY[name]).double().eval()
    with torch.no_grad():
        model(X)
    report = normdiag.inspect(model, inputs=X, measure=["stream", "norms"])
    assert [n.id for n in report.architecture.norms if n.kind == "other"] == []
