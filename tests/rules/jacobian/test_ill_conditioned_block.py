from __future__ import annotations

from statistics import median_low

import pytest
import torch
from torch import nn

import normdiag
from normdiag.evidence.blocks import BlockJacobian, TokenBlock
from normdiag.evidence.stream import TokenPosition
from tests.rules.builders import evidence, judge_rule, make_adds, one, run_rule, stack


def block(kappa: float | None, span: str = "add", **given) -> BlockJacobian:
    fields = {
        "sigma_max": 2.0,
        "sigma_min": None if kappa is None else 2.0 / kappa,
        "mean_square": 1.1,
        "effective_rank": 60.0,
        "zeros": 0,
        "distance": 0.4,
        "method": "dense",
        "error": 1e-6,
    }
    token = TokenPosition(sequence=0, position=7)
    return BlockJacobian(span=span, token=token, kappa=kappa, **{**fields, **given})


def make_evidence(blocks: dict[str, BlockJacobian]):
    return evidence(adds=make_adds(8), stacks=(stack(8),), blocks=blocks)


def test_what_float32_resolves_is_silent() -> None:
    ordinary = {"layers.0/add#0": block(3e5), "layers.1/add#0": block(None)}
    assert run_rule(make_evidence(ordinary), "ND503") == ()
    assert run_rule(make_evidence({"layers": block(1e12, "stack")}), "ND503") == ()


def test_a_singular_add() -> None:
    finding = one(make_evidence({"layers.3/add#0": block(float("inf"), sigma_min=0.0)}), "ND503")
    assert (finding.severity, finding.confidence) == ("warning", "medium")
    assert (finding.value, finding.threshold) == (float("inf"), 6e5)
    assert finding.ids == ("layers.3/add#0",)
    assert "the Jacobian of layers.3/add#0 has kappa inf" in finding.message
    assert "sigma_max 2.00, sigma_min 0, at position 7 of sequence 0" in finding.message
    assert "--site 'layers.3/add#0'" in finding.advice


def test_a_layer_is_named_by_its_last_add() -> None:
    finding = one(make_evidence({"layers/layer#3": block(1e8, "layer", layer=3)}), "ND503")
    assert finding.ids == ("layers.3/add#0",) and "of layer 3 of layers has" in finding.message


def test_a_bound_is_called_one_and_like_blocks_fold() -> None:
    made = {f"layers.{k}/add#0": block(10.0**k, is_bound=True) for k in range(6, 8)}
    assert "kappa at least 1.00e7" in one(make_evidence(made), "ND503", kappa=2e6).message
    finding = one(make_evidence(made), "ND503", kappa=1e5)
    assert finding.ids == ("layers.7/add#0", "layers.6/add#0")
    assert "2 adds, layers 6-7 of layers; worst layers.7/add#0" in finding.message


def token_block(position: int, kappa: float) -> TokenBlock:
    token = TokenPosition(sequence=0, position=position)
    return TokenBlock(token=token, sigma_max=2.0, sigma_min=2.0 / kappa, kappa=kappa,
                      mean_square=1.0, distance=0.4, method="dense", error=1e-6)  # fmt: skip


def test_the_median_over_tokens_is_judged() -> None:
    one_of_five = tuple(token_block(k, 1e9 if k == 3 else 10.0) for k in range(5))
    accident = block(10.0, tokens=one_of_five)
    assert run_rule(make_evidence({"layers.3/add#0": accident}), "ND503") == ()
    three_of_five = tuple(token_block(k, 1e9 if k > 1 else 10.0) for k in range(5))
    finding = one(make_evidence({"layers.3/add#0": block(1e9, tokens=three_of_five)}), "ND503")
    assert "medians over 5 tokens; kappa 10.0 to 1.00e9" in finding.message
    assert "above the threshold at 3 of them" in finding.message


def test_two_extreme_tokens_of_four_are_no_property_of_the_block() -> None:
    def with_kappas(*kappas: float):
        tokens = tuple(token_block(k, kappa) for k, kappa in enumerate(kappas))
        return make_evidence({"layers.3/add#0": block(median_low(kappas), tokens=tokens)})

    assert run_rule(with_kappas(10.0, 1e3, 1e9, 1e9), "ND503") == ()
    message = one(with_kappas(10.0, 1e8, 1e9, 1e9), "ND503").message
    assert "above the threshold at 3 of them" in message


@pytest.mark.parametrize(("dtype", "resolved"), [("float16", "128"), ("bfloat16", "16.0")])
def test_half_precision_is_not_judged(dtype: str, resolved: str) -> None:
    blocks = {"layers.3/add#0": block(1e9)}
    made = evidence(adds=make_adds(8), stacks=(stack(8),), blocks=blocks, subject={"dtype": dtype})
    judgement = judge_rule(made, "ND503")
    assert judgement.findings == ()
    (skip,) = judgement.skipped
    assert f"in {dtype} resolve condition numbers up to about {resolved}" in skip.why
    assert "--dtype float32" in skip.why


class Layers(nn.Module):
    """Pre-norm layers, of which one writes -v (v^T x) for a unit vector v of all channels."""

    def __init__(self, width: int, layers: int, erasing: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(layers))
        self.maps = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))
        self.erasing = erasing
        self.direction = nn.Parameter(nn.functional.normalize(torch.randn(width), dim=0))
        self.last = nn.LayerNorm(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer, (norm, linear) in enumerate(zip(self.norms, self.maps, strict=True)):
            x = x + linear(norm(x))
            if layer == self.erasing:
                x = x - (x @ self.direction).unsqueeze(-1) * self.direction
        return self.last(x)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_direction_lost_between_channels_is_found(seed: int) -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model, x = Layers(48, 6, 3).eval(), torch.randn(2, 12, 48)
    report = normdiag.inspect(model, inputs=x, measure=("block-jacobians",))
    found = [each for each in report.findings if each.code == "ND503"]
    assert {each.severity for each in found} == {"warning"}
    assert len(found) == 2, "the add and the layer that holds it"
