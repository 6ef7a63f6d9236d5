"""Block Jacobians of blocks that are singular, scaled, frozen, or that lead elsewhere."""

import warnings

import numpy as np
import pytest
import torch
from torch import nn

import normdiag
from tests.measure.block_models import WIDTH, assert_like, measure
from tests.oracle import blocks as oracle
from tests.oracle.lively import enliven


class Block(nn.Module):
    """x + a F(N(x)), the sum written in place or not."""

    def __init__(self, norm=nn.LayerNorm, in_place=False, scale=1.0):
        super().__init__()
        self.norm, self.up = norm(WIDTH), nn.Linear(WIDTH, WIDTH)
        self.in_place, self.scale = in_place, scale

    def forward(self, x):
        u = torch.tanh(self.up(self.norm(x)))
        if self.in_place:
            x += u
            return x
        return self.scale * x + u


class Post(Block):
    """N(x + F(x))."""

    def forward(self, x):
        return self.norm(self.scale * x + torch.tanh(self.up(x)))


def sequence(make, count=3):
    torch.manual_seed(0)
    return enliven(nn.Sequential(*(make() for _ in range(count))), 2)


def values(positions=5):
    return torch.randn(1, positions, WIDTH, generator=torch.Generator().manual_seed(1))


def assert_blocks(model, zeros, **settings):
    found, _ = measure(model, {"input": values()}, **settings)
    double = model.double()
    x = values().double()
    for k, layer in enumerate(double):
        if isinstance(layer, Block):
            layer.in_place = False
        block = next(b for name, b in found.items() if name.endswith(f"layer#{k}"))
        assert_like(block, oracle.at_token(layer, x, 4), zeros)
        x = layer(x).detach()
    return found


def test_adds_in_place():
    assert_blocks(sequence(lambda: Block(in_place=True)), 0)


@pytest.mark.parametrize(("norm", "zeros"), [(nn.LayerNorm, 2), (nn.RMSNorm, 1)])
def test_a_norm_on_the_stream_is_not_singular(norm, zeros):
    found = assert_blocks(sequence(lambda: Post(norm)), zeros)
    assert all(block.kappa < 1e4 for block in found.values() if block.span != "stack")


def test_gains_of_zero_count_as_zeros():
    model = sequence(lambda: Post(nn.LayerNorm))
    with torch.no_grad():
        model[1].norm.weight[:5] = 0
    found, _ = measure(model, {"input": values()})
    by_layer = [block.zeros for block in found.values() if block.span == "layer"]
    assert by_layer == [2, 5, 2]
    x = model[0](values()).detach()
    jacobian = oracle.at_token(model[1].double(), x.double(), 4)
    assert np.linalg.matrix_rank(jacobian, 1e-4) == WIDTH - 5
    assert_like(next(b for name, b in found.items() if name.endswith("layer#1")), jacobian, 5)


def test_a_scaled_skip_is_not_measured_against_the_identity():
    found = assert_blocks(sequence(lambda: Block(scale=0.5)), 0)
    assert all(block.distance is None for block in found.values())


class Projection(nn.Module):
    """x - v v'x: a direction is taken out."""

    def __init__(self):
        super().__init__()
        v = torch.nn.functional.normalize(torch.arange(1.0, WIDTH + 1), dim=0)
        self.weight = nn.Parameter(-torch.outer(v, v))

    def forward(self, x):
        return x + x @ self.weight


def test_what_rounding_hides_is_given_as_a_bound():
    found, _ = measure(nn.Sequential(Projection(), Projection()), {"input": values()})
    for block in found.values():
        assert block.is_bound
        assert 0 < block.sigma_min < 1e-5
        assert block.kappa == pytest.approx(block.sigma_max / block.sigma_min)
        assert block.sigma_max == pytest.approx(1.0, rel=1e-6)


class Pooled(nn.Module):
    """Half of the tokens are dropped between the blocks."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Block(), Block()])

    def forward(self, input):
        return self.blocks[1](self.blocks[0](input)[:, ::2])


class Frozen(nn.Module):
    """As code for inference is written."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.Sequential(Block(), Block())

    @torch.no_grad()
    def forward(self, input):
        return self.blocks(input)


def test_tokens_that_change_number_are_said():
    found, skipped = measure(Pooled().eval(), {"input": values(6)})
    (said,) = skipped
    assert "tokens change places or number" in said.why
    assert "blocks.0/add#0" in said.what
    assert "blocks.1/add#0" in found


class OneLength(nn.Module):
    """A vector per position is added: other numbers of positions do not run."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.Sequential(Block(), Block())
        self.tokens, self.place = nn.Embedding(20, WIDTH), nn.Parameter(torch.zeros(12, WIDTH))

    def forward(self, ids):
        return self.blocks(self.tokens(ids) + self.place)


def test_a_forward_that_takes_no_fewer_positions_is_said_to_be_cut():
    """The user gave inputs that run: no hint tells to give others."""
    ids = torch.arange(12).view(1, 12)
    report = normdiag.inspect(OneLength().eval(), inputs=ids, measure="block-jacobians")
    assert not report.measurements.blocks
    (said,) = report.coverage.skipped
    assert said.why.startswith("with autograd on and the inputs cut short, ")
    assert "must match the size" in said.why
    assert "hint" not in said.why


class FirstFrozen(nn.Module):
    """Two blocks in no list, the first without autograd."""

    def __init__(self):
        super().__init__()
        self.first, self.second = Block(), Block()

    def forward(self, x):
        with torch.no_grad():
            x = self.first(x)
        return self.second(x)


def test_a_stack_of_no_list_has_a_name_where_it_is_left_out():
    report = normdiag.inspect(FirstFrozen().eval(), inputs=values(5), measure="block-jacobians")
    said = [s.what for s in report.coverage.skipped if s.what.startswith("Jacobians")]
    assert said[-1] == "Jacobians of the model (root)"


def test_a_forward_without_autograd_is_said():
    found, skipped = measure(Frozen().eval(), {"input": values()})
    assert found == {}
    (said,) = skipped
    assert "autograd does not follow" in said.why
    assert "more" in said.what


def test_values_that_are_not_finite_are_said():
    model = sequence(Block, 2)
    with torch.no_grad():
        model[1].up.weight[0, 0] = float("nan")
    found, skipped = measure(model, {"input": values()})
    assert [name for name in found if name.endswith("layer#0")]
    (said,) = skipped
    assert "not finite" in said.why


class Inner(nn.Module):
    """Autograd is off in the branch alone."""

    def __init__(self):
        super().__init__()
        self.norm, self.up = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        with torch.no_grad():
            u = torch.tanh(self.up(self.norm(x)))
        return x + u


def quantised():
    block = Block().eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        linear = {nn.Linear}
        return torch.ao.quantization.quantize_dynamic(block, linear, dtype=torch.qint8)


@pytest.mark.parametrize("make", [Inner, quantised], ids=["no_grad", "no derivative"])
def test_a_branch_without_a_derivative_is_not_taken_for_none(make):
    """The skip path alone would be differentiated: a perfect identity."""
    torch.manual_seed(0)
    found, skipped = measure(nn.Sequential(Block(), make(), Block()).eval(), {"input": values()})
    assert {block.layer for block in found.values()} == {0, 2}
    (said,) = skipped
    assert "does not follow a branch" in said.why
