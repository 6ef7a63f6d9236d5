"""Block Jacobians against torch.func.jacrev of the same layers in float64."""

import numpy as np
import pytest
import torch

from normdiag.inputs.batch import Batch
from normdiag.measure.blocks import block_numbers, stack_blocks
from normdiag.measure.blocks import blocks as measured
from normdiag.measure.blocks.blocks import count_spans, measure_blocks
from normdiag.measure.passes.gradient_edges import record_gradient_edges
from tests.measure.block_models import (
    FAMILIES,
    LENGTH,
    WIDTH,
    assert_like,
    example_inputs,
    ids,
    measure,
)
from tests.oracle import blocks as oracle
from tests.oracle.lively import enliven


@pytest.fixture(scope="module", params=FAMILIES)
def family(request):
    """What was measured of a random model, and the same layers in float64."""
    build, stack, count, zeros = FAMILIES[request.param]
    torch.manual_seed(0)
    model = enliven(build(), 1)
    inputs = example_inputs(request.param)
    found, skipped = measure(model, inputs)
    assert skipped == ()
    paths = [f"{stack}.{k}" for k in range(count)]
    return found, stack, zeros, oracle.Layers(model, inputs, paths, LENGTH - 1)


def test_layers_are_what_torch_says(family):
    found, stack, zeros, layers = family
    for k in range(len(layers.layers)):
        block = found[f"{stack}/layer#{k}"]
        assert (block.span, block.layer, block.method) == ("layer", k, "dense")
        assert (block.token.sequence, block.token.position) == (0, LENGTH - 1)
        assert_like(block, layers.jacobian(k, k + 1), zeros)


def test_the_stack_is_what_torch_says(family):
    found, stack, zeros, layers = family
    count = len(layers.layers)
    assert found[stack].span == "stack"
    assert_like(found[stack], layers.jacobian(0, count), zeros)
    gains = [found[f"{stack}/layer#{k}"].sigma_max for k in range(count)]
    assert found[stack].product == pytest.approx(np.prod(gains), rel=1e-12)


def test_distance_from_the_identity(family):
    found, stack, zeros, layers = family
    for k in range(len(layers.layers)):
        block = found[f"{stack}/layer#{k}"]
        if zeros:  # a norm on the stream: there is no skip path to be near to
            assert block.distance is None
        else:
            expected = oracle.distance(layers.jacobian(k, k + 1))
            assert block.distance == pytest.approx(expected, rel=2e-3)


def test_the_adds_of_a_llama():
    torch.manual_seed(0)
    model = enliven(FAMILIES["llama"][0](), 1)
    found, _ = measure(model, example_inputs("llama"))
    layers = oracle.Layers(model, example_inputs("llama"), ["model.layers.1"], LENGTH - 1)
    layer, x = layers.layers[0], layers.entering(0)
    keywords = layers.calls[0][1]

    def attention(x):
        return x + layer.self_attn(layer.input_layernorm(x), **keywords)[0]

    def mlp(x):
        return x + layer.mlp(layer.post_attention_layernorm(x))

    for k, (function, into) in enumerate(((attention, x), (mlp, attention(x).detach()))):
        block = found[f"model.layers.1/add#{k}"]
        assert block.span == "add"
        assert_like(block, oracle.at_token(function, into, LENGTH - 1), 0)


def test_the_adds_of_a_bert_end_behind_their_norms():
    torch.manual_seed(0)
    model = enliven(FAMILIES["bert"][0](), 1)
    found, _ = measure(model, example_inputs("bert"))
    layers = oracle.Layers(model, example_inputs("bert"), ["encoder.layer.1"], LENGTH - 1)
    layer, x = layers.layers[0], layers.entering(0)

    def attention(x):
        return layer.attention(x)[0]

    def mlp(x):
        return layer.output(layer.intermediate(x), x)

    steps = ((attention, x, "attention.output"), (mlp, attention(x).detach(), "output"))
    for function, into, module in steps:
        block = found[f"encoder.layer.1.{module}/add#0"]
        assert_like(block, oracle.at_token(function, into, LENGTH - 1), 2)


def test_padding_is_no_token():
    torch.manual_seed(0)
    model = enliven(FAMILIES["bert"][0](), 1)
    mask = torch.tensor([[1] * 5 + [0] * 3])
    inputs = {"input_ids": ids(length=8), "attention_mask": mask}
    found, _ = measure(model, inputs)
    layers = oracle.Layers(model, inputs, ["encoder.layer.0"], 4)
    block = found["encoder.layer/layer#0"]
    assert block.token.position == 4
    assert_like(block, layers.jacobian(0, 1), 2)


def test_padding_on_the_left_counts_as_positions():
    torch.manual_seed(0)
    model = enliven(FAMILIES["llama"][0](), 1)
    mask = torch.tensor([[0] * 3 + [1] * 9])
    found, _ = measure(model, {"input_ids": ids(length=12), "attention_mask": mask}, positions=4)
    assert found["model.layers"].token.position == 6


@pytest.mark.parametrize("name", ["llama", "bert"])
def test_too_wide_to_be_held(monkeypatch, name):
    monkeypatch.setattr(stack_blocks, "WIDEST", WIDTH - 1)
    build, stack, count, zeros = FAMILIES[name]
    torch.manual_seed(0)
    model = enliven(build(), 1)
    found, skipped = measure(model, example_inputs(name))
    assert skipped == ()
    layers = oracle.Layers(
        model, example_inputs(name), [f"{stack}.{k}" for k in range(count)], LENGTH - 1
    )
    assert {block.method for block in found.values()} == {"iterative"}
    for k in range(count):
        jacobian = layers.jacobian(k, k + 1)
        block = found[f"{stack}/layer#{k}"]
        assert block.is_bound
        assert_like(block, jacobian, zeros)
        if block.distance is not None:
            assert block.distance == pytest.approx(oracle.distance(jacobian), rel=5e-3)
    assert_like(found[stack], layers.jacobian(0, count), zeros)


@pytest.mark.parametrize("few", [6])
def test_an_iteration_that_is_cut_short_knows_how_far_it_may_be_off(monkeypatch, few):
    monkeypatch.setattr(stack_blocks, "WIDEST", 1)
    monkeypatch.setattr(block_numbers, "STEPS", few)
    model = enliven(FAMILIES["llama"][0](), 1)
    found, _ = measure(model, example_inputs("llama"))
    layers = oracle.Layers(
        model, example_inputs("llama"), [f"model.layers.{k}" for k in range(3)], 15
    )
    for k in range(3):
        block, expected = (
            found[f"model.layers/layer#{k}"],
            oracle.numbers(layers.jacobian(k, k + 1), 0),
        )
        assert abs(block.sigma_max / expected["sigma_max"] - 1) <= block.error
        assert block.sigma_min >= expected["sigma_min"]


def test_every_span_is_a_step():
    model = FAMILIES["t5 decoder"][0]().eval()
    batch = Batch(inputs=example_inputs("t5"), rows=(0,))
    with record_gradient_edges(model, batch) as edges:
        expected = count_spans(edges.sites.architecture)
    done = []
    found, _ = measure_blocks(model, batch, lambda: done.append(1))
    assert len(done) == expected * len(measured.DEPTHS)
    assert len(found) == expected


def test_half_precision_says_so():
    torch.manual_seed(0)
    model = enliven(FAMILIES["llama"][0](), 1)
    layers = oracle.Layers(
        model, example_inputs("llama"), [f"model.layers.{k}" for k in range(3)], 15
    )
    found, _ = measure(model.bfloat16(), example_inputs("llama"))
    for k in range(3):
        block, expected = (
            found[f"model.layers/layer#{k}"],
            oracle.numbers(layers.jacobian(k, k + 1), 0),
        )
        assert abs(block.sigma_max / expected["sigma_max"] - 1) <= block.error
        assert 0.01 < block.error < 0.5
