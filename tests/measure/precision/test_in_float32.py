"""The largest stream value in float32 of a model that overflows, against a float32 copy."""

from __future__ import annotations

from copy import deepcopy

import pytest
import torch
from torch import nn

import normdiag
from normdiag.evidence.nonfinite import StreamMaximum
from normdiag.measure.precision import in_float32


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.ln, self.fc = nn.LayerNorm(16), nn.Linear(16, 16)

    def forward(self, x):
        return x + self.fc(self.ln(x))


def overflowing_model(size: float = 30000.0, dtype: torch.dtype = torch.float16) -> nn.Module:
    torch.manual_seed(0)
    model = nn.Sequential(*(Block() for _ in range(4)))
    for block in model:
        nn.init.constant_(block.fc.bias[3:4], size)
    return model.to(dtype)


def find_peak(model: nn.Module) -> StreamMaximum | None:
    x = torch.randn(2, 5, 16, generator=torch.Generator().manual_seed(1))
    dtype = next(model.parameters()).dtype
    report = normdiag.inspect(model, inputs=x.to(dtype), measure=("stream",))
    first = report.measurements.first_nonfinite
    assert first is not None
    return first.in_float32


def test_the_largest_value_of_the_stream() -> None:
    model = overflowing_model()
    x = torch.randn(2, 5, 16, generator=torch.Generator().manual_seed(1)).half().float()
    copy, peaks = deepcopy(model).float().eval(), []
    for block in copy:
        x = block(x)
        peaks.append(float(x.detach().abs().max()))
    peak = find_peak(model)
    assert peak is not None and peak.site == "3/add#0" and max(peaks) == peaks[3]
    assert peak.max_abs == pytest.approx(peaks[3], rel=1e-6) and peak.max_abs > 65504
    assert {p.dtype for p in model.parameters()} == {torch.float16}


def test_none_where_float32_overflows_as_well() -> None:
    model = overflowing_model()
    with torch.no_grad():
        model[1].fc.weight[0, 0] = float("nan")
    assert find_peak(model) is None
    assert find_peak(overflowing_model(3e38, torch.float32)) is None


def test_a_model_too_large_is_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_float32, "MAX_PARAMETER_BYTES", 1000)
    assert find_peak(overflowing_model()) is None
