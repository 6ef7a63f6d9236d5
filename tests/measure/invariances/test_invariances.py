"""What norms are blind to, against modules run by hand and autograd."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import normdiag
from normdiag.evidence.invariances import Invariances, KindInvariance


class Block(nn.Module):
    def __init__(self, norm: nn.Module, width: int = 16) -> None:
        super().__init__()
        self.norm, self.fc = norm, nn.Linear(width, width)

    def forward(self, x):
        return x + self.fc(self.norm(x))


class Channels(nn.Module):
    """A norm over channels for values of (batch, tokens, channels)."""

    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.norm = norm

    def forward(self, x):
        return self.norm(x.transpose(1, 2)).transpose(1, 2)


class ByHand(nn.Module):
    """An RMSNorm written into the block: no module is the norm."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.fc = nn.Linear(width, width)

    def forward(self, x):
        return x + self.fc(x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


def lively(norm: nn.Module) -> nn.Module:
    """With gains, biases and running statistics of a trained one."""
    with torch.no_grad():
        for parameter in norm.parameters():
            parameter.copy_(torch.randn_like(parameter) + 1)
        for buffer in norm.buffers():
            if buffer.is_floating_point():
                buffer.copy_(torch.rand_like(buffer) + 0.5)
    return norm


def invariances(block: nn.Module, x: torch.Tensor | None = None) -> Invariances:
    torch.manual_seed(0)
    given = torch.randn(2, 8, 16) if x is None else x
    model = nn.Sequential(block, Block(nn.Identity())).to(given.dtype)
    seen = normdiag.inspect(model.eval(), inputs=(given,), measure=("norms",))
    assert seen.measurements.invariances is not None
    return seen.measurements.invariances


def only(found: Invariances) -> KindInvariance:
    (kind,) = found.kinds.values()
    return kind


def change(before: torch.Tensor, after: torch.Tensor, bias: torch.Tensor | float = 0.0) -> float:
    return float((after - before).norm() / (before - bias).norm())


@pytest.mark.parametrize("name", ["layernorm", "rmsnorm"])
def test_a_norm_over_features_is_blind_to_batch_padding_and_mode(name: str) -> None:
    norm = nn.LayerNorm(16) if name == "layernorm" else nn.RMSNorm(16, eps=1e-6)
    torch.manual_seed(0)
    x = torch.randn(2, 8, 16)
    kind = only(invariances(Block(lively(norm)), x))
    assert (kind.method, kind.norm) == ("module", "0.norm")
    assert (kind.batch, kind.padding, kind.train_vs_eval, kind.batch_size_one) == (
        0.0,
        0.0,
        0.0,
        None,
    )
    norm, x = norm.double(), x[:1].double()
    bias = getattr(norm, "bias", None)
    bias = 0.0 if bias is None else bias.detach()
    with torch.no_grad():
        plain = norm(x)
        assert kind.scale == pytest.approx(change(plain, norm(2 * x), bias), rel=1e-5, abs=1e-12)
        shift = change(plain, norm(x + x.std()), bias)
    assert kind.shift == pytest.approx(shift, rel=1e-5, abs=1e-12)
    assert (kind.shift < 1e-12) == (name == "layernorm")


def test_batch_norm_fails_all_three() -> None:
    norm = lively(nn.BatchNorm1d(16))
    kind = only(invariances(Block(Channels(norm))))
    assert kind.method == "module" and kind.norm == "0.norm.norm"
    assert kind.batch > 0.1 and kind.padding > 0.1 and kind.train_vs_eval > 0.1
    assert kind.scale > 0.5  # in eval mode it is a fixed affine map
    assert kind.batch_size_one == 0.0


def test_batch_norm_in_numbers() -> None:
    torch.manual_seed(3)
    norm, x = lively(nn.BatchNorm1d(16)), torch.randn(2, 8, 16)
    kind = only(invariances(Block(Channels(norm)), x))
    z = x[:1].transpose(1, 2).double()

    def train(value: torch.Tensor) -> torch.Tensor:
        mean, var = value.mean((0, 2), keepdim=True), value.var((0, 2), keepdim=True, correction=0)
        gain, bias = (p.detach().double()[:, None] for p in (norm.weight, norm.bias))
        return (value - mean) / (var + norm.eps).sqrt() * gain + bias

    offset = norm.bias.detach().double()[:, None]
    padded = torch.cat([z, torch.zeros_like(z)], -1)
    expected = change(train(z), train(padded)[..., :8], offset)
    assert kind.padding == pytest.approx(expected, rel=1e-9)


def test_group_norm_over_time_sees_the_padding_alone() -> None:
    kind = only(invariances(Block(Channels(lively(nn.GroupNorm(4, 16))))))
    assert kind.batch < 1e-12 and kind.train_vs_eval < 1e-12
    assert kind.padding > 0.1 and kind.batch_size_one is None


def test_a_norm_that_is_no_module_is_run_as_it_was_found() -> None:
    x = torch.randn(2, 8, 16)
    kind = only(invariances(ByHand(), x))
    assert kind.method == "formula"
    assert (kind.batch, kind.padding, kind.train_vs_eval) == (0.0, 0.0, 0.0)
    assert 0 < kind.scale < 1e-5 and kind.shift > 0.1


def test_every_kind_once_at_its_first_site() -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = Block(nn.LayerNorm(16)), Block(nn.LayerNorm(16))
            self.c, self.d = Block(nn.RMSNorm(16)), Block(nn.RMSNorm(16))

        def forward(self, x):
            return self.d(self.c(self.b(self.a(x))))

    kinds = invariances(Two()).kinds
    assert {kind: found.norm for kind, found in kinds.items()} == {
        "layernorm": "0.a.norm",
        "rmsnorm": "0.c.norm",
    }


@pytest.mark.parametrize("size", [1e-3, 1e-1, 10.0])
@pytest.mark.parametrize("kind", ["layernorm", "rmsnorm"])
def test_closed_forms_against_autograd(size: float, kind: str) -> None:
    eps = 1e-2
    norm = nn.LayerNorm(16, eps=eps) if kind == "layernorm" else nn.RMSNorm(16, eps=eps)
    lively(norm)
    x = size * torch.randn(1, 1, 16, dtype=torch.float64).expand(1, 8, 16)
    found = invariances(Block(norm), x).norms["0.norm"]
    x = x[0, 0].clone().requires_grad_()
    bias = norm.bias.detach() if kind == "layernorm" else 0.0
    y = norm(x)
    upstream = torch.randn(16, dtype=torch.float64)
    (gradient,) = torch.autograd.grad(y, x, upstream)
    radial = (x * gradient).sum() / ((y - bias) * upstream).sum()
    np.testing.assert_allclose(found.radial.median, radial.item(), rtol=1e-7)
    scale = change(y.detach(), norm(2 * x).detach(), bias)
    np.testing.assert_allclose(found.scale.max, scale, rtol=1e-9)


def test_what_centring_takes_against_chance() -> None:
    torch.manual_seed(0)
    x = torch.randn(4, 500, 16)
    x[..., :] += 0.5
    (centring,) = invariances(Block(nn.LayerNorm(16)), x).centring
    energy = (16 * x.double().mean(-1) ** 2 / x.double().square().sum(-1)).mean()
    assert centring.share == pytest.approx(float(energy), rel=1e-6)
    assert centring.max == pytest.approx(16 * float(energy), rel=1e-6)
    assert (centring.kind, centring.norms, centring.norm) == ("layernorm", 1, "0.norm")


def test_by_chance_it_is_one() -> None:
    torch.manual_seed(0)
    (centring,) = invariances(Block(nn.RMSNorm(16)), torch.randn(8, 500, 16)).centring
    assert centring.median == pytest.approx(1, abs=0.05)


def test_the_model_is_left_alone() -> None:
    norm = lively(nn.BatchNorm1d(16))
    before = {name: value.clone() for name, value in norm.state_dict().items()}
    block = Block(Channels(norm)).train()
    normdiag.inspect(
        nn.Sequential(block, Block(nn.Identity())),
        inputs=(torch.randn(2, 8, 16),),
        measure=("norms",),
    )
    assert norm.training and not norm._forward_hooks
    for name, value in norm.state_dict().items():
        assert torch.equal(value, before[name])


def test_a_module_that_does_more_is_not_run_as_a_norm() -> None:
    class Leaf(nn.Module):
        """A norm and a product with a weight in one module without children."""

        def __init__(self) -> None:
            super().__init__()
            self.gain, self.weight = nn.Parameter(torch.ones(16)), nn.Parameter(torch.eye(16))

        def forward(self, x):
            return F.layer_norm(x, (16,), self.gain) @ self.weight

    class Add(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.branch = Leaf()

        def forward(self, x):
            return x + self.branch(x)

    assert only(invariances(Add())).method == "formula"


def test_a_module_that_turns_axes_is_padded_where_tokens_are() -> None:
    class ChannelsFirst(nn.LayerNorm):
        def forward(self, x):
            return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)

    class Image(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.conv = ChannelsFirst(16), nn.Conv2d(16, 16, 3, padding=1)

        def forward(self, x):
            return x + self.conv(self.norm(x))

    model = nn.Sequential(Image(), Image()).eval()
    seen = normdiag.inspect(model, inputs=(torch.randn(2, 16, 6, 5),), measure=("norms",))
    kind = only(seen.measurements.invariances)
    assert (kind.method, kind.norm, kind.padding) == ("module", "0.norm", 0.0)


def test_a_module_that_cannot_be_run_alone_is_replayed() -> None:
    class Counting(nn.LayerNorm):
        def forward(self, x):
            if len(x) != 3:
                raise RuntimeError("three sequences and no others")
            return super().forward(x)

    kind = only(invariances(Block(Counting(16)), torch.randn(3, 4, 16)))
    assert (kind.method, kind.batch) == ("formula", 0.0)


class ScriptedRMS(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.gain


def test_a_scripted_norm_takes_no_hook_and_is_tested_by_its_formula() -> None:
    torch.manual_seed(0)
    blocks = (Block(torch.jit.script(ScriptedRMS())) for _ in range(3))
    model = nn.Sequential(nn.Linear(16, 16), *blocks, nn.LayerNorm(16))
    report = normdiag.inspect(model.eval(), inputs=torch.randn(2, 5, 16), measure="norms")
    assert report.measurements.invariances is not None
    kind = report.measurements.invariances.kinds["rmsnorm"]
    assert kind.method == "formula"
    assert kind.scale < 1e-5
