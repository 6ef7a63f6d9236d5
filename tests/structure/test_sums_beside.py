"""Sums that are no residual add, and adds that stand beside the list of their layers."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import normdiag
from normdiag.report.report import Report
from tests.structure.small_parts import (
    DEPTH,
    IDS,
    MLP,
    VOCAB,
    WIDTH,
    Attention,
    Net,
    Norm,
    draw_weights,
)
from tests.structure.test_one_stack import assert_sound


def inspect_model(model: nn.Module) -> Report:
    return normdiag.inspect(draw_weights(model), inputs=IDS, measure="stream,norms")


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attn, self.mlp, self.n1, self.n2 = Attention(), MLP(), Norm(), Norm()

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.n1(x))
        return x + self.mlp(self.n2(x))


class AddNorm(nn.Module):
    """Adds the branch that ran before to the residual, and norms the sum."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = Norm()

    def forward(self, x: Tensor, residual: Tensor | None) -> tuple[Tensor, Tensor]:
        residual = x if residual is None else x + residual
        return self.norm(residual), residual


class LateBlock(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attn, self.mlp, self.n1, self.n2 = Attention(), MLP(), AddNorm(), AddNorm()

    def forward(self, x: Tensor, residual: Tensor | None) -> tuple[Tensor, Tensor]:
        x, residual = self.n1(x, residual)
        x, residual = self.n2(self.attn(x), residual)
        return self.mlp(x), residual


class LateAdds(nn.Module):
    """Each branch is added by the norm behind it, the last one by the final norm."""

    def __init__(self) -> None:
        super().__init__()
        self.tok, self.final = nn.Embedding(VOCAB, WIDTH), AddNorm()
        self.blocks = nn.ModuleList(LateBlock() for _ in range(DEPTH))

    def forward(self, ids: Tensor) -> Tensor:
        x, residual = self.tok(ids), None
        for block in self.blocks:
            x, residual = block(x, residual)
        return F.linear(self.final(x, residual)[0], self.tok.weight)


def test_the_add_of_a_final_norm_belongs_to_the_last_layer() -> None:
    report = inspect_model(LateAdds())
    (stack,) = report.architecture.stacks
    assert (stack.placement, stack.layers, stack.residual_adds_per_layer) == ("pre", DEPTH, 2)
    assert (stack.final_norm, stack.single_adds) == ("final.norm", ())
    assert not report.architecture.breaks
    assert_sound(report)


class GatedUpdate(nn.Module):
    """What a block changed is the difference of its ends, of which a gate lets a part through."""

    def __init__(self) -> None:
        super().__init__()
        self.block, self.gate = Block(), nn.Linear(WIDTH, 1)

    def forward(self, x: Tensor) -> Tensor:
        return x + torch.sigmoid(self.gate(x)) * (self.block(x) - x)


class GatheredUpdate(nn.Module):
    """Blocks see the tokens with the largest scores (mixture of depths)."""

    def __init__(self) -> None:
        super().__init__()
        self.block, self.router = Block(), nn.Linear(WIDTH, 1)

    def forward(self, x: Tensor) -> Tensor:
        scores, at = self.router(x).squeeze(-1).topk(5, -1)
        at = at.unsqueeze(-1).expand(-1, -1, WIDTH)
        tokens = x.gather(1, at)
        update = (self.block(tokens) - tokens) * torch.sigmoid(scores).unsqueeze(-1)
        return x.scatter_add(1, at, update)


class Updates(Net):
    def __init__(self, layer: Callable[[], nn.Module]) -> None:
        self.layer = layer
        super().__init__()

    def make(self) -> None:
        self.layers = nn.Sequential(*(self.layer() for _ in range(DEPTH)))

    def run(self, x: Tensor) -> Tensor:
        return self.layers(x)


@pytest.mark.parametrize("layer", [GatedUpdate, GatheredUpdate])
def test_what_a_block_changed_is_no_branch_that_is_added(layer: Callable[[], nn.Module]) -> None:
    report = inspect_model(Updates(layer))
    assert len(report.architecture.residual_adds) == 2 * DEPTH
    assert {add.placement for add in report.architecture.residual_adds} == {"pre"}
    assert not report.coverage.unexplained_adds
    assert not [f.message for f in report.findings if f.severity != "info"]


class Recurrence(nn.Module):
    """A state that decays, step by step; no step reads the last one."""

    def __init__(self) -> None:
        super().__init__()
        self.value, self.out = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.decay = nn.Parameter(torch.full((WIDTH,), 0.5))

    def forward(self, x: Tensor) -> Tensor:
        values = self.value(x)
        state, read = torch.zeros_like(values[:, 0]), []
        for at in range(x.shape[1]):
            read.append(state)
            state = state * self.decay + values[:, at]
        return self.out(torch.stack(read, 1))


class RecurrentBlock(Block):
    def __init__(self) -> None:
        super().__init__()
        self.attn = Recurrence()  # type: ignore[assignment]


def test_a_last_state_that_nothing_reads_is_no_gap() -> None:
    assert_sound(inspect_model(Updates(RecurrentBlock)))


class BlockBetween(Net):
    """Two lists of blocks and one block between them, which is no item of a list."""

    def make(self) -> None:
        self.down = nn.ModuleList(Block() for _ in range(3))
        self.middle = Block()
        self.up = nn.ModuleList(Block() for _ in range(3))

    def run(self, x: Tensor) -> Tensor:
        for block in (*self.down, self.middle, *self.up):
            x = block(x)
        return x


def test_a_norm_on_the_branch_of_a_single_add_is_no_final_norm() -> None:
    report = inspect_model(BlockBetween())
    roles = {norm.id: norm.role for norm in report.architecture.norms}
    assert [n for n, role in roles.items() if role == "final"] == ["final"]
    assert roles["middle.n1"] == roles["middle.n2"] == "branch-input"
    assert_sound(report)
