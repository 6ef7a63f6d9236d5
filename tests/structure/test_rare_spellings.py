"""Norms as few people write them, in the modes that split or keep operations differently."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import pytest
import torch
import torch.nn.functional as F

import normdiag
from normdiag.report.report import Report
from sample_models.norms import EPS, functional_ln, functional_rms
from sample_models.spelled import Spelled
from tests.structure.signature import gains, signature

IDS = torch.arange(32).view(2, 16) % 11
Tensor = torch.Tensor


def _moments(x: Tensor) -> tuple[Tensor, Tensor]:
    mean = x.mean(-1, keepdim=True)
    return mean, (x * x).mean(-1, keepdim=True) - mean**2


def _clamped_variance(x: Tensor, gain: Tensor, bias: Tensor, eps: float) -> Tensor:
    mean, variance = _moments(x)
    return (x - mean) * torch.rsqrt(variance.clamp(min=0) + eps) * gain + bias


def _rectified_variance(x: Tensor, gain: Tensor, bias: Tensor, eps: float) -> Tensor:
    mean, variance = _moments(x)
    return (x - mean) / torch.sqrt(F.relu(variance) + eps) * gain + bias


def _positional(x: Tensor, gain: Tensor, bias: Tensor, eps: float) -> Tensor:
    return (x - x.mean(-1, True)) / (x.var(-1, False, True) + eps).sqrt() * gain + bias


def _addcdiv(x: Tensor, gain: Tensor, bias: Tensor, eps: float) -> Tensor:
    s = (x.var(-1, False, True) + eps).sqrt()
    return torch.addcdiv(bias, gain * (x - x.mean(-1, True)), s)


def _one_addcmul(x: Tensor, gain: Tensor, bias: Tensor, eps: float) -> Tensor:
    mean, inverse = x.mean(-1, keepdim=True), (x.var(-1, False, True) + eps).rsqrt()
    return torch.addcmul(bias - mean * inverse * gain, x, inverse * gain)


def _norm_by_halves(x: Tensor, gain: Tensor, bias: Tensor, eps: float) -> Tensor:
    mean, inverse = x.mean(-1, keepdim=True), (x.var(-1, False, True) + eps).rsqrt()
    return (x * inverse - mean * inverse) * gain + bias


def _gain_over_root(x: Tensor, gain: Tensor, bias: Tensor, eps: float) -> Tensor:
    return x * (gain / torch.sqrt(x.pow(2).mean(-1, keepdim=True) + eps))


def _in_float64(x: Tensor, gain: Tensor, bias: Tensor, eps: float) -> Tensor:
    wide = x.double()
    return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)).to(x.dtype) * gain


def _norm_expanded(x: Tensor, gain: Tensor, bias: Tensor, eps: float) -> Tensor:
    inverse = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps)
    return x * inverse.expand_as(x) * gain


def _outer_product(x: Tensor, gain: Tensor, bias: Tensor, eps: float) -> Tensor:
    column = x.unsqueeze(-1)
    square = (column.transpose(-1, -2) @ column).squeeze(-1) / x.shape[-1]
    return x * torch.rsqrt(square + eps) * gain


def _root_of_width(x: Tensor, gain: Tensor, bias: Tensor, eps: float) -> Tensor:
    width = x.shape[-1]
    length = x.square().sum(-1, keepdim=True) + width * eps
    return x / length.sqrt() * math.sqrt(width) * gain


LN = (
    _clamped_variance, _rectified_variance, _positional, _addcdiv, _one_addcmul, _norm_by_halves,
)  # fmt: skip
RMS = (_gain_over_root, _in_float64, _norm_expanded, _outer_product, _root_of_width)


def report_of(norm: Callable[..., Tensor]) -> Report:
    return normdiag.inspect(Spelled(norm, EPS, layers=2).eval(), inputs=IDS)


@cache
def reference(is_centred: bool) -> Report:
    """The spelling of the family that torch itself offers."""
    return report_of(functional_ln if is_centred else functional_rms)


@pytest.mark.parametrize("norm", [*LN, *RMS], ids=lambda norm: norm.__name__.strip("_"))
@pytest.mark.parametrize("inference", [False, True])
def test_it_is_the_same_norm(norm: Callable[..., Tensor], inference: bool) -> None:
    expected = reference(norm in LN)
    with torch.inference_mode(inference):
        report = report_of(norm)
    assert signature(report) == signature(expected)
    assert gains(report) == pytest.approx(gains(expected), rel=1e-5)
    assert max(r.max_rel_error for r in report.measurements.replay.values()) < 1e-5
    for name, there in expected.measurements.norms.items():
        here = report.measurements.norms[name]
        assert here.input_var.median == pytest.approx(there.input_var.median, rel=1e-4)


@pytest.mark.parametrize("scale", ["skip", "branch"])
def test_a_scale_of_one_is_no_scale(scale: str) -> None:
    """A residual multiplier that a configuration leaves at its default."""
    by_one = (lambda x, f: 1.0 * x + f) if scale == "skip" else (lambda x, f: x + f * 1.0)
    report = normdiag.inspect(Spelled(functional_ln, EPS, add=by_one, layers=2), inputs=IDS)
    assert signature(report) == signature(report_of(functional_ln))


def test_a_batch_norm_before_a_reshape_does_not_take_the_gain_after_it() -> None:
    def over_tokens(x: Tensor, gain: Tensor, bias: Tensor, eps: float) -> Tensor:
        rows = x.reshape(1, -1, x.shape[-1])
        return F.batch_norm(rows, None, None, None, None, True, 0.0, eps).view_as(x) * gain

    report = report_of(over_tokens)
    assert {n.kind for n in report.architecture.norms} == {"batchnorm"}
    assert all(n.gain is None for n in report.architecture.norms)
