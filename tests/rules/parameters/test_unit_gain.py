"""ND207: every gain exactly 1 in half precision, and only there."""

from __future__ import annotations

import re

import pytest
import torch

import normdiag
from sample_models import unit_gains


def codes(dtype: torch.dtype, change: float = 0.0) -> dict[str, str]:
    model, inputs = unit_gains.build()
    with torch.no_grad():
        model.blocks[4].ln1.weight[7] += change
    report = normdiag.inspect(model.to(dtype), inputs=inputs.to(dtype), measure=("norms",))
    return {finding.code: finding.message for finding in report.findings}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_it_is_said_of_half_precision(dtype: torch.dtype) -> None:
    message = codes(dtype)["ND207"]
    assert "all 7 norms is exactly 1" in message
    below = torch.nextafter(torch.tensor(1.0, dtype=dtype), torch.tensor(0.0, dtype=dtype))
    (step,) = re.findall(r"\((\S+) downwards\)", message)
    assert float(step) == pytest.approx((1 - below.item()) / 2, rel=5e-3)


def test_one_moved_gain_or_float32_is_silent() -> None:
    assert "ND207" not in codes(torch.bfloat16, change=0.5)
    assert "ND207" not in codes(torch.float32)


def test_it_is_info() -> None:
    model, inputs = unit_gains.build()
    report = normdiag.inspect(model, inputs=inputs, measure=("norms",))
    assert [f.severity for f in report.findings if f.code == "ND207"] == ["info"]
