"""What is learned on each branch, against the parameters by their names, whatever their layout."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest
import torch
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel

import normdiag
from normdiag.evidence.branch_weights import BranchWeights
from sample_models import pre_norm_shared
from tests.gpt2_by_hand import convert_weights
from tests.oracle.lively import enliven

LAYERS = 2


@pytest.fixture(scope="module")
def original() -> nn.Module:
    config = GPT2Config(
        vocab_size=50, n_positions=20, n_embd=32, n_layer=LAYERS, n_head=4,
        bos_token_id=0, eos_token_id=1,
    )  # fmt: skip
    return enliven(GPT2LMHeadModel(config), seed=3)


def measure_weights(model: nn.Module, **options: object) -> dict[str, BranchWeights]:
    return normdiag.inspect(model, measure=("stream",), **options).measurements.branch_weights


def sum_weights(modules: Iterable[nn.Module]) -> tuple[int, float, float]:
    parameters = [p.detach().double().numpy().ravel() for m in modules for p in m.parameters()]
    every = np.concatenate(parameters)
    return every.size, float(np.linalg.norm(every)), float(every.sum())


def test_they_are_those_of_the_branch_and_of_no_norm(original: nn.Module) -> None:
    found = measure_weights(original, ids=((1, 2, 3, 4),))
    assert len(found) == 2 * LAYERS
    for i, layer in enumerate(original.transformer.h):
        for k, branch in enumerate((layer.attn, layer.mlp)):
            elements, size, total = sum_weights([branch])
            weights = found[f"transformer.h.{i}/add#{k}"]
            assert weights.elements == elements
            assert weights.norm == pytest.approx(size, rel=1e-12)
            assert weights.sum == pytest.approx(total, rel=1e-10)


class MaxScaled(nn.Module):
    """x / max|x|, with a gain and a bias: no norm of known form."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.full((width,), 1.5))
        self.shift = nn.Parameter(torch.full((width,), 0.25))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x / x.abs().amax(-1, keepdim=True) * (1 + self.gain) + self.shift


class GatedBlock(nn.Module):
    """The gate scales features by one learned number each, and by one number per token."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.scaled = MaxScaled(width)
        self.up, self.down = nn.Linear(width, width), nn.Linear(width, width)
        self.router = nn.Linear(width, 1)
        self.inner = nn.Parameter(torch.full((width,), 0.5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.scaled(x)
        inside = torch.tanh(self.up(y)) * torch.sigmoid(self.router(y)) * self.inner
        return x + self.down(inside)


def test_the_gain_of_a_norm_of_no_known_form_is_no_weight() -> None:
    torch.manual_seed(2)
    model = nn.Sequential(*(GatedBlock(16) for _ in range(3)))
    for weights, block in zip(
        measure_weights(model, inputs=torch.randn(2, 5, 16)).values(), model, strict=True
    ):
        elements, size, _ = sum_weights([block.up, block.down, block.router])
        inner = float(block.inner.detach().double().norm())
        assert weights.elements == elements + 16
        assert weights.norm == pytest.approx(np.hypot(size, inner), rel=1e-12)


def test_transposed_weights_are_the_same(original: nn.Module) -> None:
    mine = measure_weights(original, ids=((1, 2, 3, 4),))
    other = measure_weights(convert_weights(original), ids=((1, 2, 3, 4),))
    for a, b in zip(mine.values(), other.values(), strict=True):
        assert a.elements == b.elements
        assert a.norm == pytest.approx(b.norm, rel=1e-12)
        assert a.sum == pytest.approx(b.sum, rel=1e-10)


def test_a_shared_layer_has_the_same_in_every_run() -> None:
    model, inputs = pre_norm_shared.build()
    found = measure_weights(model, inputs=inputs)
    assert len(found) > 1
    assert len(set(found.values())) == 1


def test_nothing_is_summed_where_no_stream_is_asked_for(original: nn.Module) -> None:
    report = normdiag.inspect(original, measure=(), ids=((1, 2, 3, 4),))
    assert report.measurements.branch_weights == {}
