"""Equality is claimed of what was compared alone: variants of one model that share its weights."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import normdiag
from normdiag import Comparison

WIDTH, LAYERS = 32, 4
X = torch.randn(2, 12, WIDTH, generator=torch.Generator().manual_seed(3))
EPS = 0.5


class Norm(nn.Module):
    """RMSNorm; the flags exchange its formula for another one with the same parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH))
        self.form = "inside"

    def forward(self, x: Tensor) -> Tensor:
        match self.form:
            case "inside":
                return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + EPS) * self.weight
            case "outside":
                return x / (x.pow(2).mean(-1, keepdim=True).sqrt() + EPS) * self.weight
            case "spread":
                return x * torch.rsqrt(x.var(-1, keepdim=True, unbiased=False) + EPS) * self.weight
            case "fused":
                return F.rms_norm(x, (WIDTH,), self.weight, EPS)
        raise ValueError(self.form)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.n1 = Norm()
        self.fc = nn.Linear(WIDTH, WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)
        self.layer_scale = nn.Parameter(torch.full((WIDTH,), 0.3))
        self.register_buffer("temperature", torch.tensor(1.0))

    def forward(self, x: Tensor) -> Tensor:
        branch = self.out(F.silu(self.fc(self.n1(x)))) * self.temperature
        return x + self.layer_scale * branch


class Model(nn.Module):
    """A pre-norm stack, then a shift and a scale of the last norm's output, and a head."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = Norm()
        self.modulation = nn.Parameter(torch.randn(2 * WIDTH))
        self.head = nn.Linear(WIDTH, 20)
        self.factor = 1.0
        self.swaps_halves = False

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        shift, scale = self.modulation.chunk(2)
        if self.swaps_halves:
            shift, scale = scale, shift
        return self.head(self.norm(x) * (1 + scale) + shift) * self.factor


def compare(change: Callable[[Model], None]) -> Comparison:
    a = Model().eval()
    b = copy.deepcopy(a)
    with torch.no_grad():
        change(b)
    return normdiag.compare(a, b, measure=("stream", "norms"), inputs=X)


def set_forms(form: str) -> Callable[[Model], None]:
    def change(model: Model) -> None:
        for module in model.modules():
            if isinstance(module, Norm):
                module.form = form

    return change


def halve_buffer(model: Model) -> None:
    model.blocks[2].temperature.fill_(0.5)


def reset_scales(model: Model) -> None:
    for block in model.blocks:
        block.layer_scale.fill_(1.0)


def permute_rows(model: Model) -> None:
    model.blocks[1].fc.weight.copy_(model.blocks[1].fc.weight.roll(1, 0))


def exchange_matrices(model: Model) -> None:
    block = model.blocks[1]
    first = block.fc.weight.clone()
    block.fc.weight.copy_(block.out.weight)
    block.out.weight.copy_(first)


def quarter_outputs(model: Model) -> None:
    model.factor = 0.25


def swap_halves(model: Model) -> None:
    model.swaps_halves = True


def messages(comparison: Comparison) -> str:
    return " | ".join([comparison.headline, *(d.message for d in comparison.differences)])


def test_the_same_formula_in_other_words_is_no_difference() -> None:
    comparison = compare(set_forms("fused"))
    assert comparison.differences == ()
    assert comparison.headline.startswith("no difference")


def test_the_place_of_epsilon() -> None:
    comparison = compare(set_forms("outside"))
    assert re.search(r"epsilon|norm", messages(comparison))
    assert "blocks.0.n1" in {id for each in comparison.differences for id in each.a}
    assert "norms and weights are equal" not in messages(comparison)


def test_a_norm_of_no_known_form() -> None:
    """Its gain is no weight of the branch, and equal tensors are not said to differ."""
    comparison = compare(set_forms("spread"))
    (norm,) = (each for each in comparison.differences if each.kind == "norm")
    assert set(norm.a) >= {"blocks.0.n1", "norm"}
    assert norm.message.startswith(
        "x is normalised by a rmsnorm in A and divided by its standard deviation in B"
    )
    assert "weights" not in {each.kind for each in comparison.differences}


def test_a_buffer() -> None:
    comparison = compare(halve_buffer)
    (buffer,) = (each for each in comparison.differences if each.kind == "buffer")
    assert buffer.message == "the buffer blocks.2.temperature differs: 1 in A, 0.5 in B"


def test_a_learned_scale_on_the_branch_is_no_weight_of_it() -> None:
    comparison = compare(reset_scales)
    kinds = {each.kind for each in comparison.differences}
    assert "weights" not in kinds and any("scale" in kind for kind in kinds), kinds
    assert "0.3" in messages(comparison)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (permute_rows, "blocks.1.fc.weight has the same values in another order: its rows"),
        (exchange_matrices, "blocks.1.fc.weight and blocks.1.out.weight are exchanged"),
    ],
)
def test_the_order_of_weights_counts(change: Callable[[Model], None], words: str) -> None:
    assert words in messages(compare(change))


@pytest.mark.parametrize(("change", "error"), [(quarter_outputs, 0.75), (swap_halves, None)])
def test_what_stands_behind_the_last_add(
    change: Callable[[Model], None], error: float | None
) -> None:
    comparison = compare(change)
    a, b = Model().eval(), Model().eval()
    change(b)
    with torch.no_grad():
        y, z = a(X).double(), b(X).double()
    expected = float(((z - y).norm(dim=-1) / y.norm(dim=-1)).median())
    (measured,) = comparison.outputs.values()
    assert measured.median == pytest.approx(expected, rel=0.05)
    assert error is None or measured.median == pytest.approx(error, rel=1e-5)
    assert comparison.first_divergence is None
    assert "equal up to the last add" in messages(comparison)


def test_code_that_differs_leaves_norms_and_weights_equal() -> None:
    def steepen(model: Model) -> None:
        model.blocks[1].register_forward_hook(lambda module, args, y: y * 1.01)

    assert "no norms and no branch weights differ" in messages(compare(steepen))
