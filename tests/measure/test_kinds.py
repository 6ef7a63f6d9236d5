"""Every kind of norm measured alone: replay, learned values and input statistics from numpy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from tests.measure.forwards import measure_sites


def spread_parameters(module: nn.Module, seed: int = 0) -> nn.Module:
    """Gains around 1 of both signs, biases around 0, running statistics of their own."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, tensor in (*module.named_parameters(), *module.named_buffers()):
            if not tensor.is_floating_point():
                continue
            noise = torch.randn(tensor.shape, generator=generator)
            if name.endswith(("bias", "running_mean")):
                tensor.copy_(noise)
            elif name.endswith("running_var"):
                tensor.copy_(noise.square() + 0.1)
            else:
                tensor.copy_(1 + 0.7 * noise)
    return module.eval()


class RmsNorm(nn.Module):
    """As most models write it, in float32 at least."""

    def __init__(self, width: int, eps: float = 1e-6, offset: float = 0.0) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.variance_epsilon, self.offset = eps, offset

    def forward(self, x):
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.variance_epsilon)
        return (self.weight + self.offset) * wide.to(x.dtype)


class LearnedEps(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = nn.Parameter(torch.tensor(0.3))

    def forward(self, x):
        return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)


class StdNorm(nn.Module):
    """(x - mean) / (std + eps), std with n - 1, as the annotated transformer has it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.a, self.b = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

    def forward(self, x):
        return self.a * (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 0.1) + self.b


class Tanh(nn.Module):
    """DyT (Zhu et al. 2025)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.alpha = nn.Parameter(torch.ones(1))
        self.weight, self.bias = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

    def forward(self, x):
        return torch.tanh(self.alpha * x) * self.weight + self.bias


class Weightless(nn.Module):
    def forward(self, x):
        return functional.layer_norm(x, x.shape[-1:], eps=1e-3)


class Unit(nn.Module):
    def forward(self, x):
        return functional.normalize(x, dim=-1)


class ByBatch(nn.Module):
    def forward(self, x):
        return functional.batch_norm(x, *torch.ones(2, 6, dtype=x.dtype), training=True)


@dataclass(frozen=True)
class Kind:
    make: Callable[[], nn.Module]
    shape: tuple[int, ...]
    name: str
    gain: Callable[[Any], torch.Tensor] | None = None
    bias: Callable[[Any], torch.Tensor] | None = None
    eps: float | None = 1e-5


def weight(m: Any) -> torch.Tensor:
    return m.weight


def bias(m: Any) -> torch.Tensor:
    return m.bias


KINDS = {
    "layer norm": Kind(lambda: nn.LayerNorm(12), (2, 5, 12), "layernorm", weight, bias),
    "over two axes": Kind(lambda: nn.LayerNorm((4, 3)), (2, 5, 4, 3), "layernorm", weight, bias),
    "no affine": Kind(Weightless, (2, 5, 12), "layernorm", eps=1e-3),
    "no bias": Kind(lambda: nn.LayerNorm(12, bias=False), (2, 5, 12), "layernorm", weight),
    "std + eps": Kind(
        lambda: StdNorm(12), (2, 5, 12), "layernorm", lambda m: m.a, lambda m: m.b, 0.1
    ),
    "rms norm": Kind(lambda: RmsNorm(12), (2, 5, 12), "rmsnorm", weight, eps=1e-6),
    "torch's rms norm": Kind(
        lambda: nn.RMSNorm(12, eps=1e-4), (2, 5, 12), "rmsnorm", weight, eps=1e-4
    ),
    "1 + w": Kind(
        lambda: RmsNorm(12, offset=1.0), (2, 5, 12), "rmsnorm", lambda m: 1 + m.weight, eps=1e-6
    ),
    "eps is a parameter": Kind(lambda: LearnedEps(12), (2, 5, 12), "rmsnorm", weight, eps=None),
    "unit vectors": Kind(Unit, (2, 5, 12), "l2norm", eps=1e-12),
    "group norm": Kind(lambda: nn.GroupNorm(3, 6), (2, 6, 5), "groupnorm", weight, bias),
    "group norm of images": Kind(
        lambda: nn.GroupNorm(2, 6), (3, 6, 2, 4), "groupnorm", weight, bias
    ),
    "group norm without positions": Kind(
        lambda: nn.GroupNorm(3, 12), (4, 12), "groupnorm", weight, bias
    ),
    "one group": Kind(lambda: nn.GroupNorm(1, 6), (2, 6, 5), "groupnorm", weight, bias),
    "a group per channel": Kind(lambda: nn.GroupNorm(6, 6), (2, 6, 5), "groupnorm", weight, bias),
    "batch norm": Kind(lambda: nn.BatchNorm1d(6), (4, 6, 5), "batchnorm", weight, bias),
    "batch norm of images": Kind(
        lambda: nn.BatchNorm2d(6), (2, 6, 3, 4), "batchnorm", weight, bias
    ),
    "batch norm of vectors": Kind(lambda: nn.BatchNorm1d(6), (9, 6), "batchnorm", weight, bias),
    "batch norm by the batch": Kind(
        lambda: nn.BatchNorm1d(6, track_running_stats=False), (4, 6, 5), "batchnorm", weight, bias
    ),
    "batch norm in training": Kind(ByBatch, (4, 6, 5), "batchnorm"),
    "tanh": Kind(lambda: Tanh(12), (2, 5, 12), "dyt", weight, bias, None),
}
"""Every kind, with what its gain and bias are."""


def run(kind: Kind, dtype: torch.dtype = torch.float64) -> tuple[nn.Module, torch.Tensor, Any, Any]:
    torch.manual_seed(0)
    module, x = (
        spread_parameters(kind.make()).to(dtype),
        (2 * torch.randn(kind.shape) + 0.5).to(dtype),
    )
    assembly, measurements = measure_sites(module, x)
    return module, x, assembly, measurements


@pytest.mark.parametrize("name", KINDS)
def test_it_is_found_and_replays(name: str) -> None:
    _, _, assembly, measurements = run(KINDS[name])
    (norm,) = assembly.sites.architecture.norms
    assert norm.kind == KINDS[name].name
    assert measurements.replay[norm.id].max_rel_error < 1e-6


@pytest.mark.parametrize("name", KINDS)
def test_it_replays_in_half_precision_too(name: str) -> None:
    _, _, assembly, measurements = run(KINDS[name], torch.bfloat16)
    (norm,) = assembly.sites.architecture.norms
    assert measurements.replay[norm.id].max_rel_error < 2e-2


@pytest.mark.parametrize("name", KINDS)
def test_its_learned_values(name: str) -> None:
    kind = KINDS[name]
    module, _, assembly, _ = run(kind)
    (norm,) = assembly.sites.architecture.norms
    if kind.gain is None:
        assert norm.gain is None
    else:
        gain = kind.gain(module).detach().double().numpy()
        assert norm.gain is not None
        np.testing.assert_allclose(norm.gain.rms, np.sqrt(np.mean(gain**2)), rtol=1e-6)
        np.testing.assert_allclose(norm.gain.max_abs, np.abs(gain).max(), rtol=1e-6)
        np.testing.assert_allclose(norm.gain.min_abs, np.abs(gain).min(), rtol=1e-6)
        assert norm.gain.negatives == (gain < 0).sum()
    if kind.bias is None:
        assert norm.bias_rms is None
    else:
        expected = kind.bias(module).detach().double().square().mean().sqrt()
        np.testing.assert_allclose(norm.bias_rms, float(expected), rtol=1e-6)
    learned = float(module.eps.detach()) if name == "eps is a parameter" else kind.eps
    assert norm.eps == (pytest.approx(learned, rel=1e-6) if learned is not None else None)


def vectors(name: str, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """x as rows that one statistic is taken over, and as vectors over channels."""
    kind = KINDS[name]
    if kind.name == "batchnorm":
        by_channel = np.moveaxis(x, 1, -1).reshape(-1, x.shape[1])
        return by_channel.T, by_channel
    if kind.name == "groupnorm":
        groups = kind.make().num_groups
        by_channel = np.moveaxis(x, 1, -1).reshape(-1, x.shape[1])
        return x.reshape(len(x) * groups, -1), by_channel
    rows = x.reshape(*x.shape[:-2], -1) if name == "over two axes" else x
    rows = rows.reshape(-1, 12)
    return rows, rows


@pytest.mark.parametrize("name", KINDS)
def test_its_input(name: str) -> None:
    module, x, assembly, measurements = run(KINDS[name])
    (norm,) = assembly.sites.architecture.norms
    found = measurements.norms[norm.id]
    rows, channels = vectors(name, x.numpy())
    is_centred = KINDS[name].name in ("layernorm", "groupnorm", "batchnorm")
    m2 = rows.var(-1) if is_centred else np.square(rows).mean(-1)
    if getattr(module, "running_var", None) is not None:
        m2 = module.running_var.numpy()
    assert found.tokens == len(rows)
    np.testing.assert_allclose(found.input_mean, rows.mean(), rtol=1e-6)
    np.testing.assert_allclose(found.input_var.min, m2.min(), rtol=1e-6)
    np.testing.assert_allclose(found.input_var.median, np.median(m2), rtol=1e-6)
    np.testing.assert_allclose(found.input_var.p95, np.percentile(m2, 95), rtol=1e-6)
    np.testing.assert_allclose(found.max_abs, np.abs(x.numpy()).max(), rtol=1e-6)
    top = np.argsort(-np.abs(channels).max(0), kind="stable")[:5]
    assert list(found.top_channels) == list(top)
    share = np.square(channels.mean(0)).sum() / np.square(channels).sum(-1).mean()
    np.testing.assert_allclose(found.offset_share, share, rtol=1e-6)


@pytest.mark.parametrize(
    ("name", "divisor"),
    [
        ("layer norm", lambda m2, m: np.sqrt(m2 + 1e-5)),
        ("std + eps", lambda m2, m: np.sqrt(m2 * 12 / 11) + 0.1),
        ("eps is a parameter", lambda m2, m: np.sqrt(m2 + float(m.eps.detach()))),
        ("unit vectors", lambda m2, m: np.sqrt(12 * m2)),
        ("tanh", lambda m2, m: np.full_like(m2, 1 / abs(float(m.alpha.detach())))),
    ],
)
def test_what_it_divides_by(name: str, divisor: Callable[..., np.ndarray]) -> None:
    module, x, assembly, measurements = run(KINDS[name])
    (norm,) = assembly.sites.architecture.norms
    rows, _ = vectors(name, x.numpy())
    is_centred = KINDS[name].name == "layernorm"
    m2 = rows.var(-1) if is_centred else np.square(rows).mean(-1)
    found = measurements.norms[norm.id].amplification
    np.testing.assert_allclose(found.median, np.median(1 / divisor(m2, module)), rtol=1e-6)
    np.testing.assert_allclose(found.max, np.max(1 / divisor(m2, module)), rtol=1e-6)


def test_an_input_that_was_overwritten_is_said_not_to_be_measured() -> None:
    """x is gone by the time that the tanh tells what a x was for."""

    class InPlace(Tanh):
        def forward(self, x):
            return torch.tanh((x + 1).mul_(self.alpha)) * self.weight + self.bias

    assembly, measurements = measure_sites(InPlace(12), torch.randn(2, 5, 12))
    (norm,) = assembly.sites.architecture.norms
    assert norm.id not in measurements.norms
    assert [each.what for each in assembly.list_skipped()] == [norm.id]


def test_dead_groups_are_counted_and_the_others_are_not() -> None:
    """A convolution that writes nothing leaves its group without variance."""
    module, x = nn.GroupNorm(3, 6), torch.randn(2, 6, 5)
    x[:, 2:4] = 0.7
    assembly, measurements = measure_sites(module, x)
    (norm,) = assembly.sites.architecture.norms
    assert (measurements.norms[norm.id].tokens, measurements.norms[norm.id].constant) == (6, 2)


def test_a_channel_that_is_not_finite_is_the_first_to_name() -> None:
    module, x = nn.LayerNorm(12), torch.randn(2, 5, 12)
    x[1, 2, 7] = float("nan")
    assembly, measurements = measure_sites(module, x)
    (norm,) = assembly.sites.architecture.norms
    assert measurements.norms[norm.id].top_channels[0] == 7


def test_which_groups_are_constant_and_where_epsilon_is_the_larger_term() -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 12, 9)
    x[:, 4:6] = 3.0  # group 2 of 6: two channels each
    x[1, 8:10] *= 1e-4  # group 4, of one input
    _, numbers = measure_sites(nn.GroupNorm(6, 12, eps=1e-5), x)
    (found,) = numbers.norms.values()
    m2 = x.double().numpy().reshape(12, -1).var(-1)
    assert (found.tokens, found.constant, found.constant_indices) == (12, 2, (2,))
    assert found.eps_dominated == int((1e-5 / (m2 + 1e-5) > 0.5).sum()) == 3


def test_which_channels_of_a_batch_norm_never_varied() -> None:
    norm = nn.BatchNorm1d(6).eval()
    norm.running_var[torch.tensor([1, 5])] = 0.0
    _, numbers = measure_sites(norm, torch.randn(4, 6, 3))
    (found,) = numbers.norms.values()
    assert (found.constant, found.constant_indices) == (2, (1, 5))
