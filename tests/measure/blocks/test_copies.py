"""Jacobians from copies of one token are those of the span, or are not used."""

import pytest
import torch
from torch import nn

from normdiag.inputs.batch import Batch
from normdiag.measure.blocks import blocks as measured
from normdiag.measure.blocks import copies, stack_blocks
from normdiag.measure.blocks.copies import COPIES, AddOutputs, jacobian_from_copies, run_copies
from normdiag.measure.blocks.points import find_stream_points
from normdiag.measure.blocks.spans import StreamSpan
from normdiag.measure.passes.gradient_edges import record_gradient_edges
from tests.measure.block_models import FAMILIES, LENGTH, assert_like, example_inputs, measure
from tests.oracle import blocks as oracle
from tests.oracle.lively import enliven


@pytest.fixture(autouse=True)
def always(monkeypatch):
    """Also where the model is so small that it is not worth while."""
    monkeypatch.setattr(measured, "_WORTH", 0)


@pytest.fixture
def found(monkeypatch):
    """The Jacobians that copies gave."""
    kept = []

    def watched(start, end):
        kept.append(jacobian_from_copies(start, end))
        return kept[-1]

    monkeypatch.setattr(stack_blocks, "jacobian_from_copies", watched)
    return kept


@pytest.mark.parametrize("name", ["llama", "gpt2", "bert", "gemma2", "t5 decoder"])
def test_layers_are_what_torch_says(name, found):
    build, stack, count, zeros = FAMILIES[name]
    torch.manual_seed(0)
    model = enliven(build(), 1)
    blocks, _ = measure(model, example_inputs(name))
    assert len(found) >= count
    assert all(each is not None for each in found)
    paths = [f"{stack}.{k}" for k in range(count)]
    layers = oracle.Layers(model, example_inputs(name), paths, LENGTH - 1)
    for k in range(count):
        assert_like(blocks[f"{stack}/layer#{k}"], layers.jacobian(k, k + 1), zeros)


@pytest.mark.parametrize("name", ["llama", "bert"])
def test_every_span_starts_where_it_did(name):
    model = enliven(FAMILIES[name][0](), 1)
    batch, sums = Batch(inputs=example_inputs(name)), AddOutputs()
    with record_gradient_edges(model, batch, sums) as edges:
        (stack,) = edges.stacks
        points = find_stream_points(edges, stack)
        (again,) = run_copies(model, batch, edges, sums).values()
        for k in range(1, len(points) - 1, 2):  # of the MLPs
            span = StreamSpan(points[k], points[k + 1])
            assert span.test_isolation() == (False, False)
            assert again[k].row_count == COPIES
            off = jacobian_from_copies(again[k], again[k + 1]) - span.dense_jacobian()
            assert float(off.abs().max()) < 1e-5


class Alone(nn.Module):
    """Refuses, or goes another way for, sequences of one token."""

    def __init__(self, refuses):
        super().__init__()
        self.model = enliven(FAMILIES["llama"][0](), 1)
        self.refuses = refuses

    def forward(self, input_ids):
        if input_ids.shape[1] == 1:
            if self.refuses:
                raise ValueError("one token is too few")
            return self.model.model.embed_tokens(input_ids)
        return self.model(input_ids)


@pytest.mark.parametrize("refuses", [True, False])
def test_a_model_that_goes_otherwise_for_one_token(found, refuses):
    model = Alone(refuses)
    blocks, skipped = measure(model, example_inputs("llama"))
    assert found == []
    assert skipped == ()
    path = "model.model.layers"
    layers = oracle.Layers(model, example_inputs("llama"), [f"{path}.0"], LENGTH - 1)
    assert_like(blocks[f"{path}/layer#0"], layers.jacobian(0, 1), 0)


def test_copies_that_start_elsewhere_are_not_used(found, monkeypatch):
    monkeypatch.setattr(copies._OutputOverwriter, "__call__", planted_wrongly)
    model = enliven(FAMILIES["llama"][0](), 1)
    blocks, _ = measure(model, example_inputs("llama"))
    assert found
    layers = oracle.Layers(model, example_inputs("llama"), ["model.layers.0"], LENGTH - 1)
    assert_like(blocks["model.layers/layer#0"], layers.jacobian(0, 1), 0)


def planted_wrongly(self, add, total):
    self.rows.clear()
    total.mul_(2)
