"""Streams that pass by each other, begin at parameters, or lie beside each other in one value."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn

import normdiag
from tests.structure.small_decoder import WIDTH, Attention, Block, Decoder, Tensor, codes_of, pre
from tests.structure.small_decoder import inspect_decoder as inspect_model


class Reversible(Decoder):
    """x1 += F(N(x2)), then x2 += G(N(x1)), of two copies or of two halves of the embedding."""

    def __init__(self, halves: bool) -> None:
        super().__init__(*[pre] * 3)
        self.halves = halves
        if halves:
            self.tok = nn.Embedding(11, 2 * WIDTH)
            self.final, self.head = nn.LayerNorm(2 * WIDTH), nn.Linear(2 * WIDTH, 11)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.tok(ids)
        x1, x2 = x.chunk(2, -1) if self.halves else (x, x)
        for b in self.blocks:
            x1 = x1 + b.attn(b.n1(x2))
            x2 = x2 + b.mlp(b.n2(x1))
        return self.head(self.final(torch.cat([x1, x2], -1) if self.halves else x1 + x2))


@pytest.mark.parametrize("halves", [True, False])
def test_a_reversible_stack_has_all_its_adds(halves: bool) -> None:
    report = inspect_model(Reversible(halves))
    stacks = report.architecture.stacks
    assert [(s.layers, s.residual_adds_per_layer, s.placement) for s in stacks] == [
        (3, 1, "pre")
    ] * 2
    assert sum(s.final_norm == "final" for s in stacks) == 1
    assert all(len(a.input_norms) == 1 for a in report.architecture.residual_adds)
    assert codes_of(report) == set()


class TwoWay(nn.Module):
    """Queries and image tokens that attend to each other, with post-norms."""

    def __init__(self, first: bool) -> None:
        super().__init__()
        self.first = first
        self.own, self.to_image, self.to_queries = Attention(), Attention(), Attention()
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 32), nn.ReLU(), nn.Linear(32, WIDTH))
        self.n1, self.n2, self.n3, self.n4 = (nn.LayerNorm(WIDTH) for _ in range(4))

    def forward(self, q: Tensor, k: Tensor, places: Tensor) -> tuple[Tensor, Tensor]:
        q = self.own(q) if self.first else q + self.own(q + places)
        q = self.n1(q)
        q = self.n2(q + self.to_image(q + places, k))
        q = self.n3(q + self.mlp(q))
        return q, self.n4(k + self.to_queries(k, q + places))


class TwoWayDecoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.places = nn.Parameter(torch.randn(4, WIDTH))
        self.image, self.points = nn.Embedding(11, WIDTH), nn.Embedding(11, WIDTH)
        self.layers = nn.ModuleList(TwoWay(first=i == 0) for i in range(3))
        self.out = nn.Linear(WIDTH, 3)

    def forward(self, ids: Tensor) -> Tensor:
        k, q = self.image(ids), self.points(ids[:, :4])
        for layer in self.layers:
            q, k = layer(q, k, self.places)
        return self.out(q) + k.mean()


def test_a_two_way_decoder_is_post() -> None:
    report = inspect_model(TwoWayDecoder())
    stacks = report.architecture.stacks
    assert [(s.placement, s.layers, s.exceptions) for s in stacks] == [("post", 3, ())] * 2
    assert len(report.architecture.residual_adds) == 2 + 3 + 3 + 3
    (found,) = report.architecture.breaks
    assert found.is_first and found.first_module == "layers.0.own.q"
    assert codes_of(report) == set()  # the stream begins with an attention: info


class Resampler(nn.Module):
    """Learned latents that attend to the tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.latents, self.tok = nn.Parameter(torch.randn(4, WIDTH)), nn.Embedding(11, WIDTH)
        self.blocks = nn.ModuleList(Block(pre) for _ in range(3))
        self.final = nn.LayerNorm(WIDTH)

    def forward(self, ids: Tensor) -> Tensor:
        tokens = self.tok(ids)
        x = self.latents.expand(len(ids), -1, -1)
        for b in self.blocks:
            x = x + b.attn(b.n1(x), tokens)
            x = x + b.mlp(b.n2(x))
        return self.final(x)


def test_a_stream_that_begins_at_a_parameter_has_its_first_add() -> None:
    report = inspect_model(Resampler())
    (stack,) = report.architecture.stacks
    assert (stack.placement, stack.layers, stack.residual_adds_per_layer) == ("pre", 3, 2)
    assert len(report.architecture.residual_adds) == 6
    assert codes_of(report) == set()


STREAMS = 3


class Hyper(nn.Module):
    """Reads a weighted sum of the streams and writes to each; `mixes` mixes the streams as well."""

    def __init__(self, mixes: bool, last: bool) -> None:
        super().__init__()
        self.mixes, self.last = mixes, last
        self.n, self.f = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH)
        self.read, self.write = nn.Parameter(torch.rand(STREAMS)), nn.Parameter(torch.rand(STREAMS))
        if mixes:
            self.mix = nn.Parameter(torch.eye(STREAMS) + 0.2 * torch.rand(STREAMS, STREAMS))
            self.bias = nn.Parameter(0.3 * torch.rand(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        if self.last:  # (tokens, streams, features)
            y = torch.tanh(self.f(self.n(torch.einsum("s,btsw->btw", self.read, x))))
            kept = torch.einsum("rs,btsw->btrw", self.mix, x) + self.bias if self.mixes else x
            return kept + self.write[:, None] * y[:, :, None]
        y = torch.tanh(self.f(self.n(torch.einsum("s,sbtw->btw", self.read, x))))
        kept = torch.einsum("rs,sbtw->rbtw", self.mix, x) + self.bias if self.mixes else x
        return kept + self.write[:, None, None, None] * y


class HyperNet(nn.Module):
    def __init__(self, mixes: bool, last: bool) -> None:
        super().__init__()
        self.axis = 2 if last else 0
        self.tok = nn.Embedding(11, WIDTH)
        self.blocks = nn.ModuleList(Hyper(mixes, last) for _ in range(3))
        self.final = nn.LayerNorm(WIDTH)

    def spread(self, ids: Tensor) -> Tensor:
        x = self.tok(ids).unsqueeze(self.axis)
        sizes = [-1] * 4
        sizes[self.axis] = STREAMS
        return x.expand(sizes)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.spread(ids)
        for block in self.blocks:
            x = block(x)
        return self.final(x.sum(self.axis))


def _oracle_kappas(model: HyperNet, ids: Tensor, token: int) -> list[list[float]]:
    """Largest singular value and condition number per layer, of all streams at one token."""
    found, x = [], model.spread(ids).double()
    for block in model.double().blocks:
        at = x.select(2 if model.axis == 0 else 1, token).select(1 if model.axis == 0 else 0, 0)

        def write(v: Tensor, block: nn.Module = block) -> Tensor:
            shape = (STREAMS, 1, 1, WIDTH) if model.axis == 0 else (1, 1, STREAMS, WIDTH)
            return block(v.view(shape)).reshape(-1)

        jacobian = torch.autograd.functional.jacobian(write, at.reshape(-1).detach())
        singular = np.linalg.svd(jacobian.numpy(), compute_uv=False)
        found.append([singular[0], singular[0] / singular[-1]])
        x = block(x)
    model.float()
    return found


@pytest.mark.parametrize("mixes", [True, False])
@pytest.mark.parametrize("last", [True, False])
def test_the_jacobian_of_hyper_connections_is_of_all_streams(mixes: bool, last: bool) -> None:
    torch.manual_seed(0)
    model = HyperNet(mixes, last).eval()
    ids = torch.randint(0, 11, (2, 8))
    report = normdiag.inspect(model, inputs=ids, measure=("stream", "norms", "jacobians"))
    (stack,) = report.architecture.stacks
    assert (stack.placement, stack.layers, stack.streams) == ("other", 3, STREAMS)
    assert codes_of(report) == set() and report.coverage.skipped == ()
    for layer, expected in enumerate(_oracle_kappas(model, ids, token=7)):
        block = report.measurements.blocks[f"blocks/layer#{layer}"]
        (at,) = (t for t in block.tokens if t.token.position == 7 and t.token.sequence == 0)
        assert [at.sigma_max, at.kappa] == pytest.approx(expected, rel=1e-3)


class Pooled(nn.Module):
    """An update or a gate of one value per channel for many positions is spread as well."""

    def __init__(self, wiring: Callable[[nn.Module, Tensor], Tensor]) -> None:
        super().__init__()
        self.f, self.g, self.wiring = nn.Linear(8, 8), nn.Linear(8, 8), wiring

    def forward(self, x: Tensor) -> Tensor:
        return x + self.wiring(self, x)


@pytest.mark.parametrize(
    "wiring",
    [
        lambda b, x: b.f(x.mean((1, 2), keepdim=True)),
        lambda b, x: b.f(x.mean(1, keepdim=True)),
        lambda b, x: b.f(x.amax(2, keepdim=True).expand_as(x)),
        lambda b, x: b.f(x) * b.g(x.mean(1, keepdim=True)).sigmoid(),
        lambda b, x: b.f(x) * b.g(x.mean(2, keepdim=True)).tanh(),
    ],
)
def test_what_is_pooled_makes_no_streams(wiring: Callable[[nn.Module, Tensor], Tensor]) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(*(Pooled(wiring) for _ in range(3))).eval()
    report = normdiag.inspect(model, inputs=torch.randn(2, 5, 5, 8), measure=("stream",))
    assert {s.streams for s in report.architecture.stacks} == {1}
