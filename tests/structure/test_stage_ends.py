"""How stages end and the next begins: final norms, merged patches, class tokens, pooling."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from normdiag.evidence.architecture import Architecture
from tests.structure.small_parts import MLP, WIDTH, Attention, Norm, PreRes, draw_weights
from tests.structure.structures import architecture

X = torch.randn(1, 16, WIDTH, generator=torch.Generator().manual_seed(3))


def read(model: nn.Module, x: Tensor = X) -> Architecture:
    return architecture(draw_weights(model), {"x": x})


def pre_blocks(layers: int, width: int = WIDTH) -> nn.Sequential:
    return nn.Sequential(
        *(nn.Sequential(PreRes(Attention(width), width), PreRes(MLP(width), width))
          for _ in range(layers))
    )  # fmt: skip


class OutputNormed(nn.Module):
    """x + N(F(x)); the last block norms the stream behind it."""

    def __init__(self, is_last: bool) -> None:
        super().__init__()
        self.attn, self.mlp, self.n1, self.n2 = Attention(), MLP(), Norm(), Norm()
        self.n3 = Norm() if is_last else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.n1(self.attn(x))
        return self.n3(x + self.n2(self.mlp(x)))


class ClosedByBlock(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.Sequential(*(OutputNormed(i == 2) for i in range(3)))
        self.head = nn.Linear(WIDTH, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.blocks(x).mean(1))


def test_a_norm_that_the_last_branch_normed_block_adds_is_the_final_norm() -> None:
    (stack,) = read(ClosedByBlock()).stacks
    assert (stack.placement, stack.exceptions) == ("branch-output", ())
    assert (stack.norms_per_layer, stack.final_norm) == (2, "blocks.2.n3")


class Merging(nn.Module):
    """Two stages; four tokens are normed and projected as one in between."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = pre_blocks(2), pre_blocks(2, 2 * WIDTH)
        self.merge = nn.Sequential(Norm(4 * WIDTH), nn.Linear(4 * WIDTH, 2 * WIDTH))
        self.final, self.head = Norm(2 * WIDTH), nn.Linear(2 * WIDTH, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        x = self.merge(x.view(1, 4, 4 * WIDTH))
        return self.head(self.final(self.second(x)))


def test_a_norm_of_merged_patches_is_no_final_norm() -> None:
    assert [s.final_norm for s in read(Merging()).stacks] == [None, "final"]


class ClassBlock(nn.Module):
    """The first token reads all and is added to; it is joined to the others again."""

    def __init__(self) -> None:
        super().__init__()
        self.attn, self.mlp, self.n1, self.n2 = Attention(), MLP(), Norm(), Norm()

    def forward(self, x: Tensor) -> Tensor:
        token, y = x[:, :1], self.n1(x)
        token = token + self.attn(y[:, :1], y)
        token = token + self.mlp(self.n2(token))
        return torch.cat([token, x[:, 1:]], 1)


class ClassTokenBehind(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = pre_blocks(3)
        self.token = nn.Parameter(torch.ones(1, 1, WIDTH))
        self.post = nn.ModuleList(ClassBlock() for _ in range(2))
        self.final, self.head = Norm(), nn.Linear(WIDTH, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.cat([self.token.expand(len(x), -1, -1), self.blocks(x)], 1)
        for block in self.post:
            x = block(x)
        return self.head(self.final(x)[:, 0])


def test_a_class_token_that_is_cut_off_and_joined_again_is_a_stream() -> None:
    found = read(ClassTokenBehind())
    facts = [(s.id, s.placement, s.layers, s.residual_adds_per_layer) for s in found.stacks]
    assert facts == [("blocks", "pre", 3, 2), ("post", "pre", 2, 2)]
    assert [s.final_norm for s in found.stacks] == ["final", "final"]


def layer_norm(x: Tensor) -> Tensor:
    centred = x - x.mean(-1, keepdim=True)
    return centred / (centred.square().mean(-1, keepdim=True) + 1e-6).sqrt()


def rms_norm(x: Tensor) -> Tensor:
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)


def over_deviation(x: Tensor) -> Tensor:
    return x * torch.rsqrt(x.var(-1, keepdim=True) + 1e-6)


class Convolution(nn.Module):
    """x + F(N(x)), with the features on axis 1."""

    def __init__(self, norm: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.mix = nn.Conv2d(WIDTH, WIDTH, 3, padding=1)
        self.up, self.down = nn.Conv2d(WIDTH, 2 * WIDTH, 1), nn.Conv2d(2 * WIDTH, WIDTH, 1)
        self.norm = norm

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        return x + self.down(F.gelu(self.up(self.mix(y))))


class PooledInFront(nn.Module):
    """Tokens are pooled ahead of the final norm."""

    def __init__(self, norm: Callable[[Tensor], Tensor], keeps: bool) -> None:
        super().__init__()
        self.norm, self.keeps = norm, keeps
        self.blocks = nn.Sequential(*(Convolution(norm) for _ in range(3)))
        self.head = nn.Linear(WIDTH, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.blocks(x.view(1, 4, 4, WIDTH).permute(0, 3, 1, 2))
        x = x.mean((-2, -1), keepdim=self.keeps)
        return self.head(self.norm(x.permute(0, 2, 3, 1) if self.keeps else x))


@pytest.mark.parametrize("keeps", [True, False])
@pytest.mark.parametrize(
    ("norm", "kind"), [(layer_norm, "layernorm"), (rms_norm, "rmsnorm"), (over_deviation, "other")]
)
def test_a_written_norm_behind_pooling(
    norm: Callable[[Tensor], Tensor], kind: str, keeps: bool
) -> None:
    found = read(PooledInFront(norm, keeps))
    (stack,) = found.stacks
    assert [n.kind for n in found.norms] == [kind] * (3 + 1)
    assert (stack.placement, stack.final_norm) == ("pre", found.norms[-1].id)


class ConvolutionAndMLP(nn.Module):
    """An add on (B, C, H, W), then one on (B, H, W, C); the first skip of a stage is projected."""

    def __init__(self, width: int, is_first: bool) -> None:
        super().__init__()
        half = width // 2 if is_first else width
        self.norm = nn.BatchNorm2d(half)
        self.up = nn.Conv2d(half, width, 1)
        self.down = nn.Conv2d(width, width, 3, stride=2 if is_first else 1, padding=1)
        self.skip = (
            nn.Sequential(nn.AvgPool2d(2), nn.Conv2d(half, width, 1)) if is_first else nn.Identity()
        )
        self.mlp = PreRes(MLP(width), width)

    def forward(self, x: Tensor) -> Tensor:
        x = x.permute(0, 3, 1, 2)
        x = self.skip(x) + self.down(F.gelu(self.up(self.norm(x))))
        return self.mlp(x.permute(0, 2, 3, 1))


class Stages(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(*(ConvolutionAndMLP(WIDTH, False) for _ in range(2)))
        self.second = nn.Sequential(*(ConvolutionAndMLP(2 * WIDTH, i == 0) for i in range(3)))
        self.final, self.head = Norm(2 * WIDTH), nn.Linear(2 * WIDTH, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.second(self.first(x.view(1, 4, 4, WIDTH)))
        return self.head(self.final(x.mean((1, 2))))


def test_a_projected_skip_has_its_features_where_its_weights_write_them() -> None:
    found = read(Stages())
    facts = [(s.id, s.layers, s.residual_adds_per_layer, s.final_norm) for s in found.stacks]
    assert facts == [("first", 2, 2, None), ("second", 3, 2, "final")]
    assert len(found.residual_adds) == 4 + 6
