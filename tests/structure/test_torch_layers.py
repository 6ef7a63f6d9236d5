"""torch's own transformer layers, whose fast path hides a layer in one operation, and int8."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import normdiag
from sample_models.norms import EPS, functional_ln
from sample_models.spelled import Spelled
from tests.structure.signature import signature

pytestmark = pytest.mark.filterwarnings("ignore")  # torch's own, of nested tensors and torch.ao


class Decoder(nn.Module):
    def __init__(self, norm_first: bool) -> None:
        super().__init__()
        layer = nn.TransformerDecoderLayer(16, 2, 32, batch_first=True, norm_first=norm_first)
        self.decoder = nn.TransformerDecoder(layer, 3)

    def forward(self, tgt: torch.Tensor, memory: torch.Tensor) -> torch.Tensor:
        return self.decoder(tgt, memory)


@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("grad", [True, False])
def test_an_encoder(norm_first: bool, grad: bool) -> None:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, norm_first=norm_first)
    model = nn.TransformerEncoder(layer, 3, enable_nested_tensor=not norm_first).eval()
    assert torch.backends.mha.get_fastpath_enabled()
    with torch.set_grad_enabled(grad):
        report = normdiag.inspect(model, inputs=torch.randn(2, 8, 16))
    (stack,) = report.architecture.stacks
    assert (stack.id, stack.placement) == ("layers", "pre" if norm_first else "post")
    assert (stack.layers, stack.norms_per_layer, stack.residual_adds_per_layer) == (3, 2, 2)
    assert [n.id for n in report.architecture.norms[:2]] == ["layers.0.norm1", "layers.0.norm2"]
    assert max(r.max_rel_error for r in report.measurements.replay.values()) < 1e-5
    assert torch.backends.mha.get_fastpath_enabled()


@pytest.mark.parametrize("norm_first", [True, False])
def test_a_decoder(norm_first: bool) -> None:
    torch.manual_seed(0)
    report = normdiag.inspect(
        Decoder(norm_first).eval(),
        inputs={"tgt": torch.randn(2, 8, 16), "memory": torch.randn(2, 5, 16)},
    )
    (stack,) = report.architecture.stacks
    assert (stack.id, stack.placement) == ("decoder.layers", "pre" if norm_first else "post")
    assert (stack.layers, stack.norms_per_layer, stack.residual_adds_per_layer) == (3, 3, 3)
    assert max(r.max_rel_error for r in report.measurements.replay.values()) < 1e-5


def test_int8_layers_run_and_leave_the_structure_as_it_is() -> None:
    model = Spelled(functional_ln, EPS).eval()
    expected = normdiag.inspect(model, inputs=torch.arange(32).view(2, 16) % 11)
    quantised = torch.ao.quantization.quantize_dynamic(model, {nn.Linear}, dtype=torch.qint8)
    report = normdiag.inspect(quantised, inputs=torch.arange(32).view(2, 16) % 11)
    assert signature(report) == signature(expected)
    assert max(r.max_rel_error for r in report.measurements.replay.values()) < 1e-5
    weights = report.measurements.weights
    assert weights is not None and weights.elements > model.head.weight.numel()
