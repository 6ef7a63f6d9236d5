"""The format in which the graph adds a norm's epsilon, against what a constant row gives."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional

import normdiag

EPS = 1e-12


def fused(x: torch.Tensor) -> torch.Tensor:
    return functional.layer_norm(x, x.shape[-1:], eps=EPS)


def written(x: torch.Tensor) -> torch.Tensor:
    centred = x - x.mean(-1, keepdim=True)
    return centred / torch.sqrt(centred.pow(2).mean(-1, keepdim=True) + EPS)


def outside(x: torch.Tensor) -> torch.Tensor:
    centred = x - x.mean(-1, keepdim=True)
    return centred / (centred.pow(2).mean(-1, keepdim=True).sqrt() + EPS)


def upcast(x: torch.Tensor) -> torch.Tensor:
    return written(x.float()).to(x.dtype)


def upcast_until_the_root(x: torch.Tensor) -> torch.Tensor:
    centred = x - x.mean(-1, keepdim=True)
    variance = centred.float().pow(2).mean(-1, keepdim=True)
    return centred / torch.sqrt(variance + EPS).to(x.dtype)


class Model(nn.Module):
    def __init__(self, norm):
        super().__init__()
        self.norm = norm
        self.fcs = nn.ModuleList(nn.Linear(32, 32) for _ in range(3))

    def forward(self, x):
        for fc in self.fcs:
            x = x + fc(self.norm(x))
        return x


@pytest.mark.parametrize(
    ("norm", "dtype", "severities"),
    [
        (fused, None, ["info"]),
        (written, "float16", ["warning"]),
        (outside, "float16", ["warning"]),
        (upcast, "float32", []),
        (upcast_until_the_root, "float32", []),
    ],
)
def test_the_format_of_the_addition(norm, dtype, severities) -> None:
    torch.manual_seed(0)
    report = normdiag.inspect(
        Model(norm).half().eval(), inputs=torch.randn(2, 8, 32).half(), measure=("norms",)
    )
    assert [each.eps_dtype for each in report.architecture.norms] == [dtype] * 3
    assert [f.severity for f in report.findings if f.code == "ND704"] == severities


@pytest.mark.parametrize(
    ("norm", "is_finite"), [(fused, True), (written, False), (outside, False), (upcast, True)]
)
def test_a_constant_row_agrees(norm, is_finite: bool) -> None:
    assert bool(norm(torch.ones(1, 32).half()).isfinite().all()) == is_finite
