"""A residual that is not there is a finding; a chain that is whole has none."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from normdiag.report.report import Report
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


def without_attention(b: Block, x: Tensor) -> Tensor:
    x = b.attn(b.n1(x))
    return x + b.mlp(b.n2(x))


def without_mlp(b: Block, x: Tensor) -> Tensor:
    x = x + b.attn(b.n1(x))
    return b.mlp(b.n2(x))


def without_both(b: Block, x: Tensor) -> Tensor:
    return b.mlp(b.n2(b.attn(b.n1(x))))


def doubled(b: Block, x: Tensor) -> Tensor:
    x = b.attn(b.n1(x))
    x = x + x
    return x + b.mlp(b.n2(x))


def post_without_attention(b: Block, x: Tensor) -> Tensor:
    x = b.n1(b.attn(x))
    return b.n2(x + b.mlp(x))


def post_without_both(b: Block, x: Tensor) -> Tensor:
    return b.n2(b.mlp(b.n1(b.attn(x))))


def _branches(report: Report) -> list[str]:
    """The branches that are not added, by their last module."""
    return [each.last_module for each in report.architecture.breaks]


A, M = "attn.o", "mlp.2"


@pytest.mark.parametrize(
    ("wirings", "lost"),
    [
        ((pre, pre, without_attention, pre), [f"2.{A}"]),
        ((pre, without_mlp, pre, pre), [f"1.{M}"]),
        ((pre, without_both, pre, pre), [f"1.{A}", f"1.{M}"]),
        ((pre, without_attention, pre, without_mlp), [f"1.{A}", f"3.{M}"]),
        ((without_attention, pre, pre, pre), [f"0.{A}"]),
        ((pre, pre, pre, without_mlp), [f"3.{M}"]),
        ((without_attention,) * 4, [f"{i}.{A}" for i in range(4)]),
        ((without_mlp,) * 4, [f"{i}.{M}" for i in range(4)]),
        ((doubled,) * 4, [f"{i}.{A}" for i in range(4)]),
        ((doubled,) * 2, [f"{i}.{A}" for i in range(2)]),
        ((post, post, post_without_attention, post), [f"2.{A}"]),
        ((post_without_attention,) * 4, [f"{i}.{A}" for i in range(4)]),
        ((pre,) * 4, []),
        ((post,) * 4, []),
    ],
)
def test_the_branches_that_are_not_added(wirings: tuple[Wiring, ...], lost: list[str]) -> None:
    report = inspect_blocks(*wirings)
    assert _branches(report) == [f"blocks.{name}" for name in lost]
    begins = all(each.is_first for each in report.architecture.breaks)  # info: some mean it
    assert begins is (lost in ([f"0.{A}"], []))
    assert ("ND109" in codes_of(report)) is not begins


def parallel(b: Block, x: Tensor) -> Tensor:
    return x + b.attn(b.n1(x)) + b.mlp(b.n2(x))


def parallel_without_skip(b: Block, x: Tensor) -> Tensor:
    return b.attn(b.n1(x)) + b.mlp(b.n2(x))


@pytest.mark.parametrize("place", [0, 1, 2, 3])
def test_the_skip_around_branches_in_parallel_is_missed_in_any_layer(place: int) -> None:
    wirings = [parallel] * 4
    wirings[place] = parallel_without_skip
    report = inspect_blocks(*wirings)
    (found,) = report.architecture.breaks
    assert (found.first_module, found.last_module) == (
        f"blocks.{place}.attn.q",
        f"blocks.{place}.mlp.2",
    )
    assert found.is_first is (place == 0)


@pytest.mark.parametrize("place", [0, 3])
def test_a_layer_at_an_end_that_adds_nothing_is_missed_as_well(place: int) -> None:
    wirings = [pre] * 4
    wirings[place] = without_both
    report = inspect_blocks(*wirings)
    assert _branches(report) == [f"blocks.{place}.attn.o", f"blocks.{place}.mlp.2"]


class TestNoResidualAtAll:
    @pytest.mark.parametrize("wiring", [without_both, post_without_both])
    def test_there_is_no_stack_and_that_is_a_warning(self, wiring: Wiring) -> None:
        report = inspect_blocks(*[wiring] * 3)
        assert report.architecture.stacks == () == report.architecture.residual_adds
        assert report.measurements.growth == {}
        assert codes_of(report) == {"ND109"}
        assert {name.partition(".attn")[0] for name in _branches(report)} >= {
            "blocks.1",
            "blocks.2",
        }

    def test_a_perceptron_has_none_by_design(self) -> None:
        layers = [
            nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH), nn.ReLU()) for _ in range(4)
        ]
        report = inspect_decoder(nn.Sequential(nn.Embedding(11, WIDTH), *layers))
        assert report.architecture.stacks == () == report.architecture.breaks
        assert codes_of(report) == set()


class StateSpace(nn.Module):
    """A selective scan whose input is added to its output, times a gate."""

    def __init__(self, skips: bool) -> None:
        super().__init__()
        self.skips, wide = skips, 2 * WIDTH
        self.norm, self.into = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 2 * wide)
        self.conv = nn.Conv1d(wide, wide, 3, groups=wide, padding=2)
        self.step, self.b, self.c = nn.Linear(wide, wide), nn.Linear(wide, 4), nn.Linear(wide, 4)
        self.decay, self.d = nn.Parameter(torch.ones(wide, 4)), nn.Parameter(torch.ones(wide))
        self.out = nn.Linear(wide, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        u, gate = self.into(self.norm(x)).chunk(2, -1)
        u = F.silu(self.conv(u.transpose(1, 2))[..., : x.shape[1]].transpose(1, 2))
        step, b, c = F.softplus(self.step(u)), self.b(u), self.c(u)
        state, outputs = torch.zeros(*u.shape[::2], 4), []
        for t in range(x.shape[1]):
            decay = torch.exp(-step[:, t, :, None] * self.decay.exp())
            state = decay * state + (step[:, t] * u[:, t])[..., None] * b[:, t, None]
            outputs.append((state @ c[:, t, :, None])[..., 0])
        update = self.out((torch.stack(outputs, 1) + u * self.d) * F.silu(gate))
        return x + update if self.skips else update


@pytest.mark.parametrize("skips", [True, False])
def test_the_add_inside_a_scan_is_no_stream(skips: bool) -> None:
    model = Decoder()
    model.blocks = nn.ModuleList(StateSpace(skips) for _ in range(3))
    report = inspect_decoder(model)
    assert [(s.layers, s.width) for s in report.architecture.stacks] == [(3, WIDTH)] * skips
    assert codes_of(report) == (set() if skips else {"ND109"})


def test_the_add_inside_a_scan_is_no_stream_beside_a_single_add() -> None:
    class Single(Decoder):
        def __init__(self) -> None:
            super().__init__()
            self.scan, self.block = StateSpace(False), Block(pre)
            self.spare = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(2))

        def forward(self, ids: Tensor) -> Tensor:
            x = self.scan(self.tok(ids))
            return self.final(x + self.block.mlp(self.block.n1(x)))

    report = inspect_decoder(Single())
    assert [a.placement for a in report.architecture.residual_adds] == ["pre"]
    assert [s.layers for s in report.architecture.stacks] == [1]


class TestSumOfAValueWithItself:
    def test_on_the_stream_of_a_whole_chain(self) -> None:
        def twice(b: Block, x: Tensor) -> Tensor:
            x = x + b.attn(b.n1(x))
            x = x + x
            return x + b.mlp(b.n2(x))

        report = inspect_blocks(pre, twice, pre)
        (stack,) = report.architecture.stacks
        assert stack.layers == 3
        (found,) = report.architecture.doublings
        assert found.module == "blocks.1"
        assert (found.line or "").startswith("test_broken_chains.py:")
        assert max(c.max_rel_error for c in report.measurements.closure.values()) < 1e-5
        assert codes_of(report) == {"ND109"}

    def test_on_a_branch_it_is_a_scale(self) -> None:
        def twice(b: Block, x: Tensor) -> Tensor:
            h = b.attn(b.n1(x))
            x = x + (h + h)
            return x + b.mlp(b.n2(x))

        report = inspect_blocks(twice, twice)
        assert report.architecture.doublings == ()
        first = report.architecture.residual_adds[0].branch_scale
        assert (first.kind, first.value) == ("constant", 2.0)
        assert codes_of(report) == set()


class TestTwoEncoders:
    """A projection between two stacks is no branch of either."""

    def test_a_projection(self) -> None:
        self._check(nn.Linear(WIDTH, WIDTH))

    def test_a_projection_shaped_as_the_mlp(self) -> None:
        self._check(nn.Sequential(nn.Linear(WIDTH, 40), nn.ReLU(), nn.Linear(40, WIDTH)))

    def _check(self, between: nn.Module) -> None:
        first, second = Decoder(pre, pre), Decoder(pre, pre)
        first.head, second.tok = between, nn.Identity()
        report = inspect_decoder(nn.Sequential(first, second))
        assert len(report.architecture.stacks) == 2
        assert report.architecture.breaks == ()


class TestModulesThatNeverRun:
    def test_a_norm_in_every_block(self) -> None:
        def once(b: Block, x: Tensor) -> Tensor:
            x = x + b.attn(b.n1(x))
            return x + b.mlp(b.n1(x))

        report = inspect_blocks(once, once)
        unused = report.coverage.unused_modules
        assert [(u.module, u.parameters, u.stack, u.layer) for u in unused] == [
            ("blocks.0.n2", 2 * WIDTH, "blocks", 0),
            ("blocks.1.n2", 2 * WIDTH, "blocks", 1),
        ]
        assert codes_of(report) == {"ND005"}

    def test_a_part_of_one_block(self) -> None:
        def no_mlp(b: Block, x: Tensor) -> Tensor:
            return x + b.attn(b.n1(x))

        report = inspect_blocks(pre, no_mlp, pre)
        names = [u.module for u in report.coverage.unused_modules]
        assert names == ["blocks.1.mlp", "blocks.1.n2"]
        assert all(u.runs_elsewhere for u in report.coverage.unused_modules)
        assert "ND005" in codes_of(report)

    def test_a_whole_layer(self) -> None:
        class Shorter(Decoder):
            def forward(self, ids: Tensor) -> Tensor:
                x = self.tok(ids)
                for block in self.blocks[:-1]:
                    x = block(x)
                return self.head(self.final(x))

        report = inspect_decoder(Shorter(pre, pre, pre))
        (unused,) = report.coverage.unused_modules
        assert (unused.module, unused.stack, unused.layer) == ("blocks.2", "blocks", None)
        assert codes_of(report) == {"ND005"}

    def test_experts_that_no_token_chose(self) -> None:
        class Experts(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.experts = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(4))

            def forward(self, x: Tensor) -> Tensor:
                return self.experts[1](x) + self.experts[2](x)

        model = Decoder(pre, pre)
        for block in model.blocks:
            block.mlp = Experts()
        report = inspect_decoder(model)
        unused = report.coverage.unused_modules
        assert len(unused) == 4 and all(u.is_choice for u in unused)
        assert codes_of(report) == set()

    def test_a_head_of_another_task(self) -> None:
        model = Decoder(pre, pre)
        model.other_head = nn.Linear(WIDTH, 3)
        report = inspect_decoder(model)
        (unused,) = report.coverage.unused_modules
        assert (unused.module, unused.stack) == ("other_head", None)
        assert codes_of(report) == set()

    def test_a_layer_of_a_kind_that_this_input_does_not_need(self) -> None:
        """Cross-attention without an image, or a layer that predicts the token after the next."""

        class Crossing(Block):
            def __init__(self) -> None:
                super().__init__(pre)
                self.gate = nn.Parameter(torch.zeros(1))

        class Skipping(Decoder):
            def forward(self, ids: Tensor) -> Tensor:
                x = self.tok(ids)
                for block in self.blocks:
                    x = x if isinstance(block, Crossing) else block(x)
                return self.head(self.final(x))

        model = Skipping(pre, pre, pre)
        model.blocks[1] = Crossing()
        report = inspect_decoder(model)
        (unused,) = report.coverage.unused_modules
        assert (unused.module, unused.stack, unused.runs_elsewhere) == ("blocks.1", "blocks", False)
        assert codes_of(report) == set()

    def test_a_module_that_is_tied_to_one_that_ran(self) -> None:
        class Projected(Block):
            def __init__(self) -> None:
                super().__init__(lambda b, x: pre(b, x) + 0 * b.first(x))
                self.first = nn.Linear(WIDTH, WIDTH)
                self.second = nn.Linear(WIDTH, WIDTH)
                self.second.weight = self.first.weight

        model = Decoder(pre, pre)
        model.other_head = nn.Linear(WIDTH, 11, bias=False)
        model.other_head.weight = model.tok.weight
        report = inspect_decoder(model)
        assert report.coverage.unused_modules == () == report.coverage.modules_not_called
        model.blocks[0] = Projected()
        (unused,) = inspect_decoder(model).coverage.unused_modules
        assert (unused.module, unused.parameters) == ("blocks.0.second", WIDTH)  # its bias

    @pytest.mark.parametrize("is_dictionary", [False, True])
    def test_vectors_that_are_no_norm(self, is_dictionary: bool) -> None:
        """A LayerScale, and norms of languages that were not asked for."""

        class Scale(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.gain = nn.Parameter(torch.ones(WIDTH))

        model = Decoder(pre, pre)
        for block in model.blocks:
            norms = nn.ModuleDict({"de": nn.LayerNorm(WIDTH), "fr": nn.LayerNorm(WIDTH)})
            block.part = norms if is_dictionary else Scale()
        report = inspect_decoder(model)
        unused = report.coverage.unused_modules
        assert [u.module for u in unused] == ["blocks.0.part", "blocks.1.part"]
        assert not any(u.is_norm for u in unused)
        assert codes_of(report) == set()
