"""Block Jacobians at several tokens, in the context that a model needs, and their medians."""

import statistics
from dataclasses import astuple, replace

import numpy as np
import pytest
import torch
from torch import nn

from normdiag.evidence.blocks import BlockJacobian
from normdiag.evidence.statistics import Quantiles
from normdiag.evidence.stream import TokenPosition
from normdiag.inputs.batch import Batch
from normdiag.inputs.truncation import truncate_batch
from normdiag.measure.blocks import blocks as measured
from normdiag.measure.blocks.block_numbers import summarise_tokens
from tests.measure.block_models import FAMILIES, WIDTH, example_inputs, ids, measure
from tests.oracle import blocks as oracle
from tests.oracle.lively import enliven


def test_every_token_is_what_torch_says_and_the_block_their_median():
    torch.manual_seed(0)
    model = enliven(FAMILIES["llama"][0](), 1)
    found, skipped = measure(model, example_inputs("llama"), positions=8, depths=measured.DEPTHS)
    assert skipped == ()
    short = {"input_ids": ids()[:, :8]}
    for k in range(3):
        block = found[f"model.layers/layer#{k}"]
        assert [each.token.position for each in block.tokens] == [1, 3, 5, 7]
        quantiles = []
        for each in block.tokens:
            layers = oracle.Layers(
                model, short, [f"model.layers.{n}" for n in range(3)], each.token.position
            )
            expected = oracle.numbers(layers.jacobian(k, k + 1), 0)
            for name in ("sigma_max", "sigma_min", "kappa", "mean_square"):
                assert getattr(each, name) == pytest.approx(expected[name], rel=1e-3), name
            quantiles.append(expected["quantiles"])
        off = np.array(astuple(block.singular_values)) - np.median(quantiles, axis=0)
        assert np.abs(off).max() <= block.error * block.sigma_max
        for name in ("sigma_max", "sigma_min", "kappa", "mean_square"):
            values = [getattr(each, name) for each in block.tokens]
            middle = (
                statistics.median_low if name in ("sigma_min", "kappa") else statistics.median_high
            )
            assert getattr(block, name) == middle(values)


def test_tokens_that_see_later_ones_keep_the_whole_sequence():
    torch.manual_seed(0)
    model = enliven(FAMILIES["bert"][0](), 1)
    found, _ = measure(model, example_inputs("bert"), positions=8, depths=measured.DEPTHS)
    block = found["encoder.layer/layer#1"]
    assert [each.token.position for each in block.tokens] == [3, 7, 11, 15]
    paths = [f"encoder.layer.{n}" for n in range(3)]
    for each in block.tokens:
        layers = oracle.Layers(model, example_inputs("bert"), paths, each.token.position)
        expected = oracle.numbers(layers.jacobian(1, 2), 2)
        assert each.sigma_max == pytest.approx(expected["sigma_max"], rel=1e-4)
        assert each.mean_square == pytest.approx(expected["mean_square"], rel=1e-4)


def test_a_long_sequence_keeps_its_last_token():
    batch = Batch(
        inputs={
            "input_ids": torch.arange(12)[None],
            "attention_mask": torch.tensor([[1] * 10 + [0] * 2]),
        }
    )
    cut = truncate_batch(batch, 6, keeps_last=True)
    assert cut.inputs["input_ids"].tolist() == [[0, 1, 2, 3, 4, 9]]
    assert cut.inputs["attention_mask"].tolist() == [[1] * 6]
    whole = truncate_batch(batch, 32, keeps_last=True)
    assert whole.inputs["input_ids"].shape == (1, 12)


class Eraser(nn.Module):
    """Takes one feature off the stream at the tokens with a mark."""

    def __init__(self):
        super().__init__()
        self.up = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        is_open = (x[..., -1:] > 50).to(x.dtype).detach()
        first = torch.zeros(WIDTH)
        first[0] = 1.0
        return x + (0.1 * torch.tanh(self.up(x)) * (1 - is_open) - is_open * first * x)


@pytest.mark.parametrize(("open_tokens", "is_singular"), [([7], False), (range(8), True)])
def test_one_singular_token_is_no_singular_block(open_tokens, is_singular):
    torch.manual_seed(0)
    x = torch.randn(1, 8, WIDTH)
    x[0, list(open_tokens), -1] = 90.0
    model = nn.Sequential(Eraser(), Eraser()).eval()
    found, _ = measure(model, {"input": x}, depths=measured.DEPTHS)
    block = next(b for b in found.values() if b.span == "layer")
    assert block.tokens[-1].kappa > 1e5
    assert (block.kappa > 1e5) is is_singular
    assert block.is_bound is is_singular


def test_quantiles_need_all_singular_values_of_every_token():
    of_three = [Quantiles(p5=k, p25=2 * k, p50=3 * k, p75=4 * k, p95=5 * k) for k in (1, 7, 2)]
    known = [replace(make_block(k, 0.5), singular_values=of_three[k]) for k in range(3)]
    assert summarise_tokens(known).singular_values == of_three[2]
    assert summarise_tokens([*known, make_block(3, 0.5)]).singular_values is None


def make_block(position, sigma_min, *, is_bound=False):
    return BlockJacobian(
        span="add", token=TokenPosition(sequence=0, position=position), sigma_max=2.0,
        sigma_min=sigma_min, kappa=2.0 / sigma_min if sigma_min else None, mean_square=1.0,
        effective_rank=3.0, zeros=0, distance=None, method="dense", error=1e-6 * (1 + position),
        is_bound=is_bound,
    )  # fmt: skip


def test_a_median_is_a_bound_where_a_bounded_value_could_move_it():
    values = [0.5, 0.4, 1e-6, 0.3, 0.2]
    blocks = [make_block(k, value, is_bound=value < 1e-3) for k, value in enumerate(values)]
    block = summarise_tokens(blocks)
    assert (block.sigma_min, block.is_bound, block.token.position) == (0.3, False, 4)
    assert block.error == pytest.approx(5e-6)
    assert block.kappa == pytest.approx(2.0 / 0.3)
    many = [make_block(k, value, is_bound=k > 1) for k, value in enumerate(values)]
    assert summarise_tokens(many).is_bound
    assert np.isclose(summarise_tokens([make_block(0, 0.0)] * 3).sigma_min, 0.0)
