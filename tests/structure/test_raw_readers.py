"""What reads the stream past the norms of its branch: by mistake, or by design."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.structure.small_decoder import (
    WIDTH,
    Block,
    Decoder,
    Tensor,
    Wiring,
    codes_of,
    inspect_blocks,
    inspect_decoder,
    post,
    pre,
)


def _adapter(b: Block, x: Tensor) -> Tensor:
    down, up = b.attn.q.weight[:3], b.attn.k.weight[:, :3]
    return F.relu(x @ down.T) @ up.T


def _squeezed(b: Block, x: Tensor) -> Tensor:
    return torch.sigmoid(_adapter(b, x.mean(1, keepdim=True)))


def _routed(b: Block, x: Tensor) -> Tensor:
    chosen = F.linear(x, b.attn.q.weight[:2]).argmax(-1)
    return b.attn.k.weight[:2][chosen] * b.mlp(b.n2(x))


RAW_BY_DESIGN: dict[str, Wiring] = {
    "adapter beside": lambda b, x: x + b.mlp(b.n2(x)) + _adapter(b, x),
    "adapter in the branch": lambda b, x: x + (b.mlp(b.n2(x)) + 0.5 * _adapter(b, x)),
    "low rank": lambda b, x: (
        x + (b.mlp(b.n2(x)) + x @ b.attn.q.weight[:3].T @ b.attn.k.weight[:, :3].T)
    ),
    "silu gate": lambda b, x: x + F.silu(b.attn.q(x)) * b.mlp(b.n2(x)),
    "sigmoid gate": lambda b, x: x + b.mlp(b.n2(x)) * torch.sigmoid(b.attn.q(x)),
    "squeeze and excitation": lambda b, x: x + _squeezed(b, x) * b.mlp(b.n2(x)),
    "argmax router": lambda b, x: x + _routed(b, x),
}
RAW_BY_MISTAKE: dict[str, Wiring] = {
    "values of a product": lambda b, x: x + b.attn.o(b.mlp(b.n2(x)) * b.attn.v(x)),
    "a whole branch beside": lambda b, x: x + (b.attn(b.n2(x)) + b.mlp(x)),
    "queries": lambda b, x: x + b.attn(x, b.n2(x)),
}


class TestRawReaders:
    def test_keys_and_values_of_the_raw_stream(self) -> None:
        def raw(b: Block, x: Tensor) -> Tensor:
            x = x + b.attn(b.n1(x), x)
            return x + b.mlp(b.n2(x))

        report = inspect_blocks(raw, pre)
        readers = [a.raw_readers for a in report.architecture.residual_adds]
        assert readers == [("blocks.0.attn.k", "blocks.0.attn.v"), (), (), ()]
        assert codes_of(report) == {"ND110"}

    def test_positions_on_the_way_do_not_hide_them(self) -> None:
        def raw(b: Block, x: Tensor) -> Tensor:
            x = x + b.attn(b.n1(x), x + b.n1.bias)
            return x + b.mlp(b.n2(x))

        first = inspect_blocks(raw, raw).architecture.residual_adds[0]
        assert first.raw_readers == ("blocks.0.attn.k", "blocks.0.attn.v")

    @pytest.mark.parametrize("name", RAW_BY_DESIGN)
    def test_adapters_gates_and_routers_read_the_raw_stream(self, name: str) -> None:
        def designed(b: Block, x: Tensor) -> Tensor:
            x = x + b.attn(b.n1(x))
            return RAW_BY_DESIGN[name](b, x)

        report = inspect_blocks(designed, designed)
        assert not any(a.raw_readers for a in report.architecture.residual_adds)
        assert len(report.architecture.residual_adds) == 4 and codes_of(report) == set()

    @pytest.mark.parametrize("name", RAW_BY_MISTAKE)
    def test_what_computes_the_update_does_not(self, name: str) -> None:
        def mistaken(b: Block, x: Tensor) -> Tensor:
            x = x + b.attn(b.n1(x))
            return RAW_BY_MISTAKE[name](b, x)

        report = inspect_blocks(mistaken, mistaken)
        assert codes_of(report) == {"ND110"}

    @pytest.mark.parametrize("wiring", [pre, post])
    def test_a_norm_written_out_is_no_reader(self, wiring: Wiring) -> None:
        class Written(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.gain = nn.Parameter(torch.ones(WIDTH))

            def forward(self, x: Tensor) -> Tensor:
                return x * torch.rsqrt((x @ x.mT).diagonal(dim1=-2, dim2=-1)[..., None]
                                       / WIDTH + 1e-6) * self.gain  # fmt: skip

        model = Decoder(wiring, wiring)
        for block in model.blocks:
            block.n1 = block.n2 = Written()
        report = inspect_decoder(model)
        assert not any(a.raw_readers for a in report.architecture.residual_adds)
