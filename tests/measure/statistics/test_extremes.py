"""What an add says of formats: operands' sizes and formats, what is not finite, and where."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from normdiag.evidence.stream import AddMeasurement
from tests.measure.forwards import measure_sites


class Write(nn.Module):
    """y = x + W x."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.fc = nn.Linear(width, width, bias=False)

    def forward(self, x):
        return x + self.fc(x.to(self.fc.weight.dtype))


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Write(), Write()])

    def forward(self, inputs_embeds, attention_mask=None):
        for layer in self.layers:
            inputs_embeds = layer(inputs_embeds)
        return inputs_embeds


def measure_adds(model: nn.Module, **inputs: torch.Tensor) -> list[AddMeasurement]:
    _, measurements = measure_sites(model, **inputs)
    return list(measurements.stream.values())


@pytest.fixture
def model() -> Model:
    torch.manual_seed(0)
    return Model().eval()


def test_the_largest_of_both_operands(model: Model) -> None:
    x = torch.randn(2, 5, 8)
    (first, _) = measure_adds(model, inputs_embeds=x)
    u = x @ model.layers[0].fc.weight.T
    assert first.skip_max_abs == x.abs().max().item()
    assert first.branch_max_abs == u.abs().max().item()
    assert first.skip_dtype == first.branch_dtype == "float32"


def test_padding_is_left_out(model: Model) -> None:
    x, mask = torch.randn(2, 5, 8), torch.ones(2, 5, dtype=torch.long)
    mask[1, :2] = 0
    x[1, 0, 3] = 100.0
    (first, _) = measure_adds(model, inputs_embeds=x, attention_mask=mask)
    assert first.skip_max_abs == x[mask.bool()].abs().max().item()


def test_a_wider_branch_makes_a_wider_stream(model: Model) -> None:
    model.half()
    model.layers[0].fc.float()
    assembly, measurements = measure_sites(model, inputs_embeds=torch.randn(1, 4, 8).half())
    first, second = measurements.stream.values()
    assert (first.skip_dtype, first.branch_dtype) == ("float16", "float32")
    assert (second.skip_dtype, second.branch_dtype) == ("float32", "float16")
    assert [a.dtype for a in assembly.sites.architecture.residual_adds] == ["float32", "float32"]


def test_what_is_not_finite_is_counted_where_it_is(model: Model) -> None:
    """One channel of one token of the first sum; all of that token behind it."""
    x, mask = torch.randn(2, 5, 8), torch.ones(2, 5, dtype=torch.long)
    mask[1, :2] = 0
    with torch.no_grad():
        model.layers[0].fc.weight.copy_(torch.eye(8))
    x[0, 2, 3] = x[1, 0, 3] = 3e38  # twice that is more than float32 has
    first, second = measure_adds(model, inputs_embeds=x, attention_mask=mask)
    assert (first.nonfinite, first.padded_nonfinite, first.nonfinite_elements) == (2, 1, 2)
    assert (second.nonfinite, second.padded_nonfinite, second.nonfinite_elements) == (2, 1, 16)


def test_a_sound_model_counts_nothing(model: Model) -> None:
    for add in measure_adds(model, inputs_embeds=torch.randn(2, 5, 8)):
        assert (add.nonfinite, add.padded_nonfinite, add.nonfinite_elements) == (0, 0, 0)
