"""Skips that are modulated, biased, gated, projected or fused: what healthy code writes by hand."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

import normdiag
from normdiag.report.report import Report
from tests.structure.small_decoder import (
    WIDTH,
    Block,
    Decoder,
    Tensor,
    codes_of,
    inspect_blocks,
    inspect_decoder,
    post,
    pre,
)


def _placements(report: Report) -> Counter[str]:
    return Counter(add.placement for add in report.architecture.residual_adds)


def _largest_error(report: Report) -> float:
    measured = report.measurements
    errors = [r.max_rel_error for r in measured.replay.values()]
    return max(errors + [c.max_rel_error for c in measured.closure.values()])


class WrittenNorm(nn.Module):
    """LayerNorm in the order that most people write it."""

    def __init__(self) -> None:
        super().__init__()
        self.gain, self.bias = nn.Parameter(torch.ones(WIDTH)), nn.Parameter(torch.zeros(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        centred = x - x.mean(-1, keepdim=True)
        return self.gain * (centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt()) + (
            self.bias
        )


def test_a_written_norm_on_the_stream_is_no_unexplained_sum() -> None:
    model = Decoder(post, post, post, final=False)
    for block in model.blocks:
        block.n1, block.n2 = WrittenNorm(), WrittenNorm()
    report = inspect_decoder(model)
    assert _placements(report) == {"post": 6}
    assert report.coverage.unexplained_adds == () and codes_of(report) == set()


class ConditionedBlock(Block):
    def __init__(self, late: bool, shifts: bool) -> None:
        super().__init__(pre)
        self.late, self.shifts, self.ada = late, shifts, nn.Linear(WIDTH, 3 * WIDTH)

    def forward(self, x: Tensor, c: Tensor) -> Tensor:  # type: ignore[override]
        scale, shift, gate = self.ada(c).chunk(3, -1)
        h = self.n1(x) * (1 + scale) + shift
        x = (h if self.late else x) + gate * self.attn(h)
        x = x + self.mlp(self.n2(x))
        return x + shift if self.shifts else x  # a condition on the stream itself


class Conditioned(nn.Module):
    """The stream of tokens and a condition for every block."""

    def __init__(self, late: bool, shifts: bool) -> None:
        super().__init__()
        self.into, self.cond = nn.Linear(3, WIDTH), nn.Linear(5, WIDTH)
        self.blocks = nn.ModuleList(ConditionedBlock(late, shifts) for _ in range(3))
        self.final = nn.LayerNorm(WIDTH)

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        x, c = self.into(x), F.silu(self.cond(t))[:, None]
        for block in self.blocks:
            x = block(x, c)
        return self.final(x)


@pytest.mark.parametrize("late", [True, False])
@pytest.mark.parametrize("shifts", [True, False])
def test_conditions_are_no_gap(late: bool, shifts: bool) -> None:
    torch.manual_seed(0)
    report = normdiag.inspect(
        Conditioned(late, shifts).eval(),
        inputs={"x": torch.randn(2, 6, 3), "t": torch.randn(2, 5)},
        measure=("stream", "norms"),
    )
    (stack,) = report.architecture.stacks
    assert (stack.layers, stack.final_norm) == (3, "final")
    assert report.coverage.unexplained_adds == () and codes_of(report) == set()
    first, second = ("normed-skip", "pre") if late else ("pre", "pre")
    assert [a.placement for a in report.architecture.residual_adds] == [first, second] * 3
    assert _largest_error(report) < 1e-5
    if late:
        (finding,) = (f for f in report.findings if f.code == "ND104")
        assert "the skip is normed, by blocks.0.n1, blocks.1.n1 and blocks.2.n1" in finding.message


def test_a_second_sum_of_the_same_branches_is_no_stream() -> None:
    """ResiDual: a post-norm stream, and a raw sum beside it that is read at the end."""

    class TwoSums(Decoder):
        def forward(self, ids: Tensor) -> Tensor:
            x = raw = self.tok(ids)
            for b in self.blocks:
                update = b.attn(x)
                raw, x = raw + update, b.n1(x + update)
                update = b.mlp(x)
                raw, x = raw + update, b.n2(x + update)
            return self.head(x + self.final(raw))

    report = inspect_decoder(TwoSums(post, post, post))
    (stack,) = report.architecture.stacks
    assert (stack.placement, stack.layers, stack.residual_adds_per_layer) == ("post", 3, 2)
    assert not {f.code for f in report.findings} & {"ND103", "ND104", "ND109"}
    assert codes_of(report) == set()


def _gru(b: Block, x: Tensor) -> Tensor:
    for cell, branch, norm in ((b.g1, b.attn, b.n1), (b.g2, b.mlp, b.n2)):
        x = cell(branch(norm(x)).flatten(0, 1), x.flatten(0, 1)).view_as(x)
    return x


def _highway(b: Block, x: Tensor) -> Tensor:
    for cell, branch, norm in ((b.g1, b.attn, b.n1), (b.g2, b.mlp, b.n2)):
        gate = torch.sigmoid(F.linear(x, cell.weight_hh[:WIDTH]))
        x = gate * branch(norm(x)) + (1 - gate) * x
    return x


def _lerp(b: Block, x: Tensor) -> Tensor:
    for cell, branch, norm in ((b.g1, b.attn, b.n1), (b.g2, b.mlp, b.n2)):
        x = torch.lerp(x, branch(norm(x)), torch.sigmoid(cell.bias_ih[:WIDTH]))
    return x


def _post_gated(b: Block, x: Tensor) -> Tensor:
    for cell, branch, norm in ((b.g1, b.attn, b.n1), (b.g2, b.mlp, b.n2)):
        update = branch(x)
        gates = F.linear(torch.cat([x, update], -1), cell.weight_ih.flatten()[: 4 * WIDTH**2]
                         .view(2 * WIDTH, 2 * WIDTH)).sigmoid()  # fmt: skip
        first, second = gates.chunk(2, -1)
        x = norm(first * x + second * update)
    return x


@pytest.mark.parametrize("wiring", [_gru, _highway, _lerp, _post_gated])
def test_a_gated_residual_is_other(wiring: object) -> None:
    model = Decoder(wiring, wiring, wiring)  # type: ignore[arg-type]
    for block in model.blocks:
        block.g1, block.g2 = nn.GRUCell(2 * WIDTH, WIDTH), nn.GRUCell(2 * WIDTH, WIDTH)
        if wiring is _gru:
            block.g1, block.g2 = nn.GRUCell(WIDTH, WIDTH), nn.GRUCell(WIDTH, WIDTH)
    report = inspect_decoder(model)
    (stack,) = report.architecture.stacks
    assert (stack.placement, stack.layers, stack.note) == ("other", 3, None)
    assert _placements(report) == {"other": 6}
    assert codes_of(report) == set() and _largest_error(report) < 1e-5


def test_a_gate_on_the_branch_alone_leaves_the_skip_as_it_is() -> None:
    def gated(b: Block, x: Tensor) -> Tensor:
        h = b.n1(x)
        x = x + torch.sigmoid(b.attn.q(h)) * b.attn(h)
        return x + b.mlp(b.n2(x))

    assert _placements(inspect_blocks(gated, gated)) == {"pre": 4}


def test_the_state_of_a_gated_cell_on_a_branch_is_no_stream() -> None:
    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell = nn.GRUCell(WIDTH, WIDTH)

        def forward(self, x: Tensor, memory: Tensor | None = None) -> Tensor:
            state, states = x.new_zeros(len(x), WIDTH), []
            for t in range(x.shape[1]):
                state = self.cell(x[:, t], state)
                states.append(state)
            return torch.stack(states, 1)

    model = Decoder(pre, pre)
    for block in model.blocks:
        block.attn = Recurrent()
    report = inspect_decoder(model)
    (stack,) = report.architecture.stacks
    assert (stack.placement, stack.layers, stack.residual_adds_per_layer) == ("pre", 2, 2)


class Bottleneck(nn.Module):
    """A residual block of images that may halve the resolution and change the width."""

    def __init__(self, before: int, after: int, pools: bool) -> None:
        super().__init__()
        stride = 1 if before == after else 2
        self.c1 = nn.Conv2d(before, after, 3, stride, 1)
        self.c2 = nn.Conv2d(after, after, 3, 1, 1)
        self.b1, self.b2 = nn.BatchNorm2d(after), nn.BatchNorm2d(after)
        self.project = nn.Identity()
        if stride == 2:
            conv = nn.Conv2d(before, after, 1, 1 if pools else 2)
            self.project = nn.Sequential(nn.AvgPool2d(2), conv) if pools else conv

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.project(x) + self.b2(self.c2(F.relu(self.b1(self.c1(x))))))


@pytest.mark.parametrize("pools", [True, False])
def test_projected_skips_are_adds_of_their_stage(pools: bool) -> None:
    torch.manual_seed(0)
    stages = [
        nn.Sequential(Bottleneck(a, b, pools), Bottleneck(b, b, pools), Bottleneck(b, b, pools))
        for a, b in ((8, 8), (8, 16), (16, 32))
    ]
    model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), *stages)
    report = normdiag.inspect(
        model.eval(), inputs=torch.randn(2, 3, 16, 16), measure=("stream", "norms", "jacobians")
    )
    assert [(s.width, s.layers) for s in report.architecture.stacks] == [(8, 3), (16, 3), (32, 3)]
    projected = [a.is_projected for a in report.architecture.residual_adds]
    assert projected == [False, False, False, True, False, False, True, False, False]
    assert _placements(report) == {"branch-output": 9}
    assert codes_of(report) == set()
    first = report.measurements.blocks[report.architecture.residual_adds[0].id]
    assert first.kappa is None and first.sigma_max > 1  # a ReLU behind it may be shut
    assert report.coverage.unexplained_adds == ()
    assert {s.why for s in report.coverage.skipped} == {"the skip is transformed there"}


def test_two_linear_maps_of_one_value_are_no_residual_add() -> None:
    class LowRank(nn.Linear):
        def __init__(self) -> None:
            super().__init__(WIDTH, WIDTH)
            self.down, self.up = nn.Linear(WIDTH, 2), nn.Linear(2, WIDTH)

        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x) + self.up(self.down(x))

    model = Decoder(pre, pre)
    for block in model.blocks:
        block.attn.q = block.attn.o = LowRank()
    report = inspect_decoder(model)
    assert len(report.architecture.residual_adds) == 4 and codes_of(report) == set()


class TestFused:
    """An add inside a matrix product, with the product's bias on the skip."""

    def _write(self, b: Block, x: Tensor) -> Tensor:
        x = x + b.attn(b.n1(x))
        h = F.gelu(b.mlp[0](b.n2(x)))
        skip = (x + b.mlp[2].bias).flatten(0, 1)
        return torch.addmm(skip, h.flatten(0, 1), b.mlp[2].weight.T).view_as(x)

    def test_the_same_adds_and_jacobians_as_apart(self) -> None:
        reports = []
        for wiring in (self._write, pre):
            torch.manual_seed(0)
            model = Decoder(wiring, wiring).eval()
            ids = torch.arange(14).view(2, 7) % 11
            reports.append(
                normdiag.inspect(model, inputs=ids, measure=("stream", "norms", "jacobians"))
            )
        fused, apart = reports
        assert _placements(fused) == _placements(apart) == {"pre": 4}
        assert fused.coverage.skipped == () and codes_of(fused) == set()
        for id, block in apart.measurements.blocks.items():
            assert fused.measurements.blocks[id].sigma_max == pytest.approx(
                block.sigma_max, rel=1e-4
            )


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpointed_blocks_have_their_gradients(reentrant: bool) -> None:
    class Checkpointed(Decoder):
        def forward(self, ids: Tensor) -> Tensor:
            x = self.tok(ids)
            for block in self.blocks:
                x = checkpoint(block, x, use_reentrant=reentrant)
            return self.head(self.final(x))

    found = []
    for kind in (Checkpointed, Decoder):
        torch.manual_seed(0)
        model = kind(pre, pre, pre).eval()
        ids = torch.arange(14).view(2, 7) % 11
        found.append(normdiag.inspect(model, inputs=ids, measure=("gradients", "jacobians")))
    assert found[0].coverage.skipped == ()
    own, expected = (report.measurements for report in found)
    assert own.gradients is not None and expected.gradients is not None
    assert own.gradients.global_norm == pytest.approx(expected.gradients.global_norm, rel=1e-5)
    for id, block in expected.blocks.items():
        assert own.blocks[id].kappa == pytest.approx(block.kappa, rel=1e-4)


def test_one_module_in_every_place_is_said() -> None:
    model = Decoder(pre)
    model.blocks = nn.ModuleList([Block(pre)] * 4)
    (stack,) = inspect_decoder(model).architecture.stacks
    assert (stack.layers, stack.layer_modules) == (4, 1)
    (stack,) = inspect_blocks(*[pre] * 4).architecture.stacks
    assert (stack.layers, stack.layer_modules) == (4, 4)


class TestMajority:
    def test_one_add_in_eight_is_an_exception(self) -> None:
        def bare(b: Block, x: Tensor) -> Tensor:
            x = x + b.attn(b.n1(x))
            return x + b.mlp(x)

        report = inspect_blocks(pre, pre, bare, pre)
        (stack,) = report.architecture.stacks
        assert stack.placement == "pre"
        assert [(e.layer, e.add, e.placement) for e in stack.exceptions] == [
            (2, "blocks.2/add#1", "none")
        ]
        (finding,) = (f for f in report.findings if f.code == "ND104")
        assert finding.severity == "warning"

    def test_half_of_the_adds_make_a_hybrid(self) -> None:
        def bare(b: Block, x: Tensor) -> Tensor:
            x = x + b.attn(b.n1(x))
            return x + b.mlp(x)

        (stack,) = inspect_blocks(bare, bare).architecture.stacks
        assert (stack.placement, stack.exceptions) == ("hybrid", ())


def test_a_norm_of_raw_patches_is_no_norm_of_the_stream() -> None:
    class Patches(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.norm = nn.Conv2d(3, 24, 2, 2), nn.LayerNorm([24, 4, 4])
            self.into = nn.Linear(24, WIDTH)
            self.blocks = nn.Sequential(Block(pre), Block(pre))
            self.final = nn.LayerNorm(WIDTH)

        def forward(self, x: Tensor) -> Tensor:
            patches = self.norm(self.conv(x)).flatten(2).transpose(1, 2)
            return self.final(self.blocks(self.into(patches)))

    torch.manual_seed(0)
    report = normdiag.inspect(
        Patches().eval(), inputs=torch.randn(2, 3, 8, 8), measure=("stream", "norms")
    )
    assert "ND107" not in {f.code for f in report.findings}
