"""Every block of two real models, at 16 tokens, against torch.func.jacrev in float64."""

from __future__ import annotations

from dataclasses import astuple

import numpy as np
import pytest
from transformers import AutoModelForCausalLM, AutoTokenizer, BertModel

from normdiag.inputs.batch import Batch
from normdiag.measure.blocks.blocks import measure_blocks
from tests.oracle import blocks as oracle

LENGTH = 16
TEXT = (
    "The lighthouse keeper wrote in his diary every evening, although nothing ever happened there "
    "but the weather and the slow turning of the lamp above the sea."
)


def tokens(directory):
    found = AutoTokenizer.from_pretrained(directory)(TEXT, return_tensors="pt")["input_ids"]
    assert found.shape[1] >= LENGTH
    return found[:, :LENGTH]


def assert_alike(model, ids, stack, zeros):
    """Within 1 %, and sigma_max within the error that is stated."""
    blocks, skipped = measure_blocks(
        model, Batch(inputs={"input_ids": ids}), lambda: None, LENGTH, (1.0,)
    )
    assert skipped == ()
    paths = [f"{stack}.{k}" for k in range(len(zeros))]
    truth = oracle.Layers(model, {"input_ids": ids}, paths, LENGTH - 1)
    for k, left_out in enumerate(zeros):
        block = blocks[f"{stack}/layer#{k}"]
        expected = oracle.numbers(truth.jacobian(k, k + 1), left_out)
        assert (block.zeros, block.method, block.is_bound) == (left_out, "dense", False)
        assert abs(block.sigma_max / expected["sigma_max"] - 1) <= block.error < 1e-4, k
        off = np.array(astuple(block.singular_values)) - expected.pop("quantiles")
        assert np.abs(off).max() <= block.error * expected["sigma_max"], k
        for name, value in expected.items():
            assert getattr(block, name) == pytest.approx(value, rel=0.01), (k, name)


@pytest.mark.real
@pytest.mark.slow
def test_minilm(minilm_directory):
    model = BertModel.from_pretrained(minilm_directory).eval()

    def zeros(layer):
        """The mean and the radius; or the gains that are zero beside the others, if more."""
        norms = (layer.attention.output.LayerNorm, layer.output.LayerNorm)
        gains = [norm.weight.abs() for norm in norms]
        return max(2, *(int((gain < 1e-7 * gain.max()).sum()) for gain in gains))

    expected = [zeros(layer) for layer in model.encoder.layer]
    assert max(expected) > 2
    assert_alike(model, tokens(minilm_directory), "encoder.layer", expected)


@pytest.mark.real
@pytest.mark.slow
def test_smollm2(smollm2_directory):
    model = AutoModelForCausalLM.from_pretrained(smollm2_directory).eval()
    assert_alike(model, tokens(smollm2_directory), "model.layers", [0] * 30)
