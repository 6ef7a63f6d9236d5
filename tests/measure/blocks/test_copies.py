"""Jacobians from copies of one token are those of the span, or are not used."""

import pytest
import torch
from torch import nn

from normdiag.inputs.batch import Batch
from normdiag.measure.blocks import blocks as measured
from normdiag.measure.blocks import copies, prefixes
from normdiag.measure.blocks.copies import COPIES, AddOutputs, jacobians_from_copies, run_copies
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

    def watched(start, end, tokens):
        kept.append(jacobians_from_copies(start, end, tokens))
        return kept[-1]

    monkeypatch.setattr(copies, "jacobians_from_copies", watched)
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
            assert again.points[k].row_count == COPIES
            off = again.compute_jacobian(k, k + 1, 0) - span.dense_jacobian()
            assert float(off.abs().max()) < 1e-5


DEPTHS = (0.25, 0.5, 1.0)


@pytest.mark.parametrize("name", ["llama", "gpt2", "gemma2"])
def test_copies_with_a_past_are_all_tokens_at_once(name):
    model = enliven(FAMILIES[name][0](), 1)
    batch, sums = Batch(inputs=example_inputs(name)), AddOutputs()
    with record_gradient_edges(model, batch, sums) as edges:
        (stack,) = edges.stacks
        found = run_copies(model, batch, edges, sums, DEPTHS, with_past=True)
        (again,) = found.values()
        for number, depth in enumerate(DEPTHS):
            points = find_stream_points(edges, stack, depth)
            for k in range(len(points) - 1):  # attention too
                assert again.points[k].row_count == COPIES * len(DEPTHS)
                dense = StreamSpan(points[k], points[k + 1]).dense_jacobian()
                off = again.compute_jacobian(k, k + 1, number) - dense
                assert float(off.abs().max()) < 1e-5 * float(dense.abs().max())


@pytest.mark.parametrize("name", ["llama", "gpt2", "gemma2"])
def test_one_forward_and_one_of_copies_tell_what_a_forward_per_token_tells(name, monkeypatch):
    model, batch = enliven(FAMILIES[name][0](), 1), Batch(inputs=example_inputs(name))
    forwards = []
    model.register_forward_pre_hook(lambda *_: forwards.append(torch.is_grad_enabled()))

    def measure_all():
        forwards.clear()
        return measured.measure_blocks(model, batch, lambda: None, LENGTH - 1, DEPTHS)[0]

    together = measure_all()
    assert forwards == [True, False, True]  # the context, what its past is, the copies
    monkeypatch.setattr(copies, "copy_with_past", lambda *_: None)
    singly = measure_all()
    assert len(forwards) > 3
    assert together.keys() == singly.keys()
    for id, block in together.items():
        assert len(block.tokens) == len(DEPTHS)
        for a, b in zip(block.tokens, singly[id].tokens, strict=True):
            assert (a.token, a.context, a.method) == (b.token, b.context, b.method)
            assert a.sigma_max == pytest.approx(b.sigma_max, rel=1e-5)
            assert a.sigma_min == pytest.approx(b.sigma_min, abs=1e-5 * b.sigma_max)
            assert a.mean_square == pytest.approx(b.mean_square, rel=1e-5)


def test_a_past_that_is_another_one_is_not_used(monkeypatch):
    """A model whose copies read something else: what they give is compared and thrown away."""
    model = enliven(FAMILIES["llama"][0](), 1)

    def shifted(*given):
        batch = prefixes.copy_with_past(*given)
        batch.inputs["attention_mask"][:, 0] = 0  # the first token is out of sight
        return batch

    monkeypatch.setattr(copies, "copy_with_past", shifted)
    blocks, _ = measure(model, example_inputs("llama"))
    layers = oracle.Layers(model, example_inputs("llama"), ["model.layers.0"], LENGTH - 1)
    assert_like(blocks["model.layers/layer#0"], layers.jacobian(0, 1), 0)


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
