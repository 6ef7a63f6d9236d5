"""all-MiniLM-L6-v2: BERT, post-LayerNorm, epsilon 1e-12, three sentences padded to one length."""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoTokenizer, BertModel

from normdiag.inputs.batch import Batch
from normdiag.measure.forwards import measure_forward
from tests.oracle.batches import corner
from tests.oracle.bert import bert_case
from tests.oracle.verification import Verification

TEXTS = [
    "The quick brown fox jumps over the lazy dog.",
    "def normalise(x): return (x - x.mean()) / x.std()",
    "Übergewicht",
]


@pytest.fixture(scope="module")
def case(minilm_directory):
    tokenizer = AutoTokenizer.from_pretrained(minilm_directory)
    batch = dict(tokenizer(TEXTS, padding=True, return_tensors="pt"))
    return bert_case(
        BertModel.from_pretrained(minilm_directory).eval(),
        [batch],
        target=str(minilm_directory),
        checkpoint=load_file(minilm_directory / "model.safetensors"),
        few=[corner(batch, 2, 4)],
    )


@pytest.mark.real
def test_embedding_norm_is_worst_at_a_token_outside_the_sample(minilm_directory):
    """Over 256 tokens, against dense SVDs of torch's own LayerNorm, one per token."""
    model = BertModel.from_pretrained(minilm_directory).eval()
    ids = torch.randint(1000, 20000, (2, 128), generator=torch.Generator().manual_seed(0))
    module, inputs = model.embeddings.LayerNorm, []
    module.register_forward_pre_hook(lambda _, args: inputs.append(args[0].double()))
    batch = Batch(inputs={"input_ids": ids}, rows=(0, 1))
    measured = measure_forward(model, [batch], ("norm-jacobians",))
    jacobian = measured.measurements.norms["embeddings.LayerNorm"].jacobian
    gain, size = module.weight.detach().double(), (module.weight.numel(),)

    def normalise(x):
        return torch.nn.functional.layer_norm(x, size, gain, None, module.eps)

    tokens = inputs[0].reshape(-1, *size)
    values = torch.stack(
        [torch.linalg.svdvals(torch.func.jacrev(normalise)(token)) for token in tokens]
    )
    kappas = values[:, 0] / values[:, -3]
    assert (jacobian.tokens, jacobian.sample) == (256, 16)
    assert jacobian.kappa.max == pytest.approx(float(kappas.max()), rel=1e-6)
    assert jacobian.sigma_max.max == pytest.approx(float(values[:, 0].max()), rel=1e-6)
    assert jacobian.sigma_min.min == pytest.approx(float(values[:, -3].min()), rel=1e-6)
    assert jacobian.kappa.max > 1.3 * float(kappas.median())


@pytest.mark.real
class TestMiniLM(Verification):
    """Every number of the report."""

    def test_headline(self, report):
        (stack,) = report["architecture"]["stacks"]
        assert (stack["layers"], stack["placement"], stack["norm_kind"]) == (6, "post", "layernorm")
        assert len(report["architecture"]["norms"]) == 13
        assert len(report["architecture"]["residual_adds"]) == 12
        assert stack["embedding_norm"] == "embeddings.LayerNorm"
        assert stack["final_norm"] is None
