"""Norms over another axis, norms of length, and what stands in a norm's place."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import normdiag
from normdiag.report.report import Report

IDS = torch.arange(32).view(2, 16) % 11
IMAGES = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(0))


class ChannelNorm(nn.Module):
    """A norm over the channels of (N, C, H, W): `function` gets the gain and the bias (C, 1, 1)."""

    def __init__(self, function: Callable[..., torch.Tensor], channels: int) -> None:
        super().__init__()
        self.function = function
        self.weight = nn.Parameter(1 + 0.1 * torch.randn(channels))
        self.bias = nn.Parameter(0.1 * torch.randn(channels))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x, self.weight[:, None, None], self.bias[:, None, None])


class ConvLayer(nn.Module):
    def __init__(self, function: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.norm = ChannelNorm(function, 8)
        self.depthwise = nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.up, self.down = nn.Conv2d(8, 16, 1), nn.Conv2d(16, 8, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(F.gelu(self.up(self.depthwise(self.norm(x)))))


class ConvNet(nn.Module):
    def __init__(self, function: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            self.stem = nn.Conv2d(3, 8, 2, 2)
            self.layers = nn.ModuleList(ConvLayer(function) for _ in range(3))
            self.norm = ChannelNorm(function, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        for layer in self.layers:
            x = layer(x)
        return self.norm(x).mean((-1, -2))


def _convnext(x: torch.Tensor, gain: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    mean = x.mean(1, keepdim=True)
    variance = (x - mean).pow(2).mean(1, keepdim=True)
    return gain * ((x - mean) / torch.sqrt(variance + 1e-6)) + bias


def _without_keepdim(x: torch.Tensor, gain: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    mean, variance = x.mean(1)[:, None], x.var(1, unbiased=False)[:, None]
    return (x - mean) * torch.rsqrt(variance + 1e-6) * gain + bias


def _moments(x: torch.Tensor, gain: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    mean = x.mean(1, keepdim=True)
    variance = (x * x).mean(1, keepdim=True) - mean * mean
    return (x - mean) * torch.rsqrt(variance + 1e-6) * gain + bias


def _permute_channels(x: torch.Tensor, gain: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    last = x.permute(0, 2, 3, 1)
    return F.layer_norm(last, (8,), gain.flatten(), bias.flatten(), 1e-6).permute(0, 3, 1, 2)


def _channel_rms(x: torch.Tensor, gain: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return x * torch.rsqrt(x.square().mean(1, keepdim=True) + 1e-6) * gain


@pytest.mark.parametrize(
    ("function", "kind", "axes"),
    [
        (_convnext, "layernorm", (-3,)),
        (_without_keepdim, "layernorm", (-3,)),
        (_moments, "layernorm", (-3,)),
        (_permute_channels, "layernorm", (-1,)),
        (_channel_rms, "rmsnorm", (-3,)),
    ],
)
def test_a_norm_over_the_channels(
    function: Callable[..., torch.Tensor], kind: str, axes: tuple[int, ...]
) -> None:
    report = normdiag.inspect(ConvNet(function).eval(), inputs=IMAGES)
    (stack,) = report.architecture.stacks
    assert (stack.id, stack.placement, stack.norm_kind) == ("layers", "pre", kind)
    assert (stack.layers, stack.norms_per_layer, stack.final_norm) == (3, 1, "norm")
    assert [n.id for n in report.architecture.norms] == [
        "layers.0.norm", "layers.1.norm", "layers.2.norm", "norm",
    ]  # fmt: skip
    for norm in report.architecture.norms:
        assert (norm.axes, norm.features, norm.eps) == (axes, 8, 1e-6)
        assert norm.gain is not None
        assert (norm.bias_rms is None) == (kind == "rmsnorm")
    _replays(report)


class Pooled(nn.Module):
    """Tokens are pooled first, then normalised by hand."""

    def __init__(self) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            self.up, self.down = nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.mean(1)
        for _ in range(2):
            h = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)
            x = x + self.down(F.gelu(self.up(h)))
        return x


def test_a_norm_of_pooled_tokens() -> None:
    report = normdiag.inspect(Pooled().eval(), inputs=torch.randn(4, 5, 16))
    assert [n.kind for n in report.architecture.norms] == ["rmsnorm", "rmsnorm"]
    assert [n.role for n in report.architecture.norms] == ["branch-input", "branch-input"]
    _replays(report)


class Layer(nn.Module):
    """`forward` is a function of the layer and x."""

    def __init__(self, function: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.function = function
        self.up, self.down = nn.Linear(16, 32), nn.Linear(32, 16)
        self.step = nn.Parameter(torch.full((16,), 0.1))
        self.alpha = nn.Parameter(torch.tensor(0.5))
        self.gain = nn.Parameter(1 + 0.1 * torch.randn(16))
        self.bias = nn.Parameter(0.1 * torch.randn(16))

    def branch(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(F.gelu(self.up(x)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(self, x)


class Net(nn.Module):
    def __init__(self, function: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            self.embed = nn.Embedding(11, 16)
            self.layers = nn.ModuleList(Layer(function) for _ in range(3))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)
        return x


def _unit(x: torch.Tensor) -> torch.Tensor:
    return F.normalize(x, dim=-1)


LENGTHS: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], float]] = {
    "F.normalize": (_unit, 1e-12),
    "x / norm": (lambda x: x / x.norm(dim=-1, keepdim=True), 0.0),
    "x / clamped": (lambda x: x / x.norm(p=2, dim=-1, keepdim=True).clamp_min(1e-8), 1e-8),
    "x / (norm + eps)": (lambda x: x / (x.norm(dim=-1, keepdim=True) + 1e-8), 1e-8),
    "x * rsqrt(sum)": (lambda x: x * x.square().sum(-1, keepdim=True).rsqrt(), 0.0),
    "linalg.norm": (lambda x: x / torch.linalg.norm(x, dim=-1, keepdim=True), 0.0),
}


@pytest.mark.parametrize("name", LENGTHS)
def test_a_norm_of_length_one(name: str) -> None:
    function, eps = LENGTHS[name]
    model = Net(lambda layer, x: x + layer.branch(function(x)))
    report = normdiag.inspect(model.eval(), inputs=IDS)
    (stack,) = report.architecture.stacks
    assert (stack.placement, stack.norm_kind, stack.layers) == ("pre", "l2norm", 3)
    assert [n.id for n in report.architecture.norms] == [f"layers.{i}/norm#0" for i in range(3)]
    assert [n.eps for n in report.architecture.norms] == [eps] * 3
    assert all(n.gain is None for n in report.architecture.norms)
    _replays(report)


@pytest.mark.parametrize(
    "function",
    [
        lambda layer, x: _unit(x + layer.step * (_unit(layer.branch(x)) - x)),
        lambda layer, x: _unit(torch.lerp(x, _unit(layer.branch(x)), layer.step)),
    ],
    ids=["written out", "lerp"],
)
def test_a_step_on_the_sphere_is_other(function: Callable[..., torch.Tensor]) -> None:
    """nGPT (Loshchilov et al. 2024): every value of the stream has length 1."""
    report = normdiag.inspect(Net(function).eval(), inputs=IDS)
    (stack,) = report.architecture.stacks
    assert (stack.placement, stack.norm_kind) == ("other", "l2norm")
    assert (stack.layers, stack.residual_adds_per_layer, stack.norms_per_layer) == (3, 1, 2)
    _replays(report)


TANHS: dict[str, Callable[[Layer, torch.Tensor], torch.Tensor]] = {
    "authors'": lambda layer, x: torch.tanh(layer.alpha * x) * layer.gain + layer.bias,
    "swapped": lambda layer, x: layer.bias + layer.gain * torch.tanh(x * layer.alpha),
    "addcmul": lambda layer, x: torch.addcmul(layer.bias, torch.tanh(layer.alpha * x), layer.gain),
    "in place": lambda layer, x: (
        (layer.alpha * x).tanh_().mul_(layer.gain).add_(layer.bias)
    ),
    "viewed scalar": lambda layer, x: F.tanh(layer.alpha.view(1) * x) * layer.gain + layer.bias,
    "offsets": lambda layer, x: torch.tanh(x * (layer.alpha + 0.5)) * (layer.gain + 1) + layer.bias,
}  # fmt: skip


@pytest.mark.parametrize("name", TANHS)
def test_a_tanh_in_a_norms_place_is_named(name: str) -> None:
    model = Net(lambda layer, x: x + layer.branch(TANHS[name](layer, x)))
    report = normdiag.inspect(model.eval(), inputs=IDS)
    (stack,) = report.architecture.stacks
    assert (stack.placement, stack.norm_kind) == ("pre", "dyt")
    assert [n.kind for n in report.architecture.norms] == ["dyt"] * 3
    assert all(n.gain is not None and n.bias_rms is not None for n in report.architecture.norms)
    _replays(report)


def test_a_tanh_without_a_learned_factor_is_none() -> None:
    model = Net(lambda layer, x: x + layer.branch(torch.tanh(torch.tensor(0.5) * x) * layer.gain))
    report = normdiag.inspect(model.eval(), inputs=IDS)
    assert [n.kind for n in report.architecture.norms] == []


def _replays(report: Report) -> None:
    found = report.measurements.replay
    assert {n.id for n in report.architecture.norms} <= set(found)
    assert max(r.max_rel_error for r in found.values()) < 1e-5
