"""Each form of epsilon: its value, its unit and what is computed with it, against plain torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import normdiag
from normdiag.report.report import Report

Function = Callable[[torch.Tensor], torch.Tensor]
EPS = 0.05
WIDTH = 16


@dataclass(frozen=True)
class Form:
    """A norm without gain, its denominator and the part of epsilon in it, per row."""

    function: Function
    denominator: Function
    share: Function
    eps_form: str
    kind: str
    eps: float = EPS
    """In the report's unit."""
    gain: float = 1.0


def _ms(x: torch.Tensor) -> torch.Tensor:
    return x.square().mean(-1, keepdim=True)


def _length(x: torch.Tensor) -> torch.Tensor:
    return x.norm(dim=-1, keepdim=True)


def _std(x: torch.Tensor) -> torch.Tensor:
    return x.std(-1, keepdim=True)


def _centre(x: torch.Tensor) -> torch.Tensor:
    return x - x.mean(-1, keepdim=True)


FORMS: dict[str, Form] = {
    "in the root": Form(
        lambda x: x * torch.rsqrt(_ms(x) + EPS), lambda x: (_ms(x) + EPS).sqrt(),
        lambda x: EPS / (_ms(x) + EPS), "in-root", "rmsnorm",
    ),
    "on the root": Form(
        lambda x: x / (_ms(x).sqrt() + EPS), lambda x: _ms(x).sqrt() + EPS,
        lambda x: EPS / (_ms(x).sqrt() + EPS), "on-root", "rmsnorm",
    ),
    "floor of the mean square": Form(
        lambda x: x * torch.rsqrt(_ms(x).clamp(min=EPS)), lambda x: _ms(x).clamp(min=EPS).sqrt(),
        lambda x: (_ms(x) <= EPS).double(), "floor-in-root", "rmsnorm",
    ),
    "floor of the root": Form(
        lambda x: x / _ms(x).sqrt().clamp_min(EPS), lambda x: _ms(x).sqrt().clamp_min(EPS),
        lambda x: (_ms(x).sqrt() <= EPS).double(), "floor-of-root", "rmsnorm",
    ),
    "floor of the variance": Form(
        lambda x: _centre(x) * torch.rsqrt(x.var(-1, keepdim=True, correction=0).clamp(min=EPS)),
        lambda x: x.var(-1, keepdim=True, correction=0).clamp(min=EPS).sqrt(),
        lambda x: (x.var(-1, keepdim=True, correction=0) <= EPS).double(),
        "floor-in-root", "layernorm",
    ),
    "floor of a length": Form(
        lambda x: F.normalize(x, dim=-1, eps=EPS), lambda x: _length(x).clamp_min(EPS),
        lambda x: (_length(x) <= EPS).double(), "floor-of-root", "l2norm", gain=WIDTH**-0.5,
    ),
    "on a length": Form(
        lambda x: x / (_length(x) + EPS), lambda x: _length(x) + EPS,
        lambda x: EPS / (_length(x) + EPS), "on-root", "l2norm", gain=WIDTH**-0.5,
    ),
    "in the root of a sum": Form(
        lambda x: x * torch.rsqrt(x.square().sum(-1, keepdim=True) + EPS),
        lambda x: (x.square().sum(-1, keepdim=True) + EPS).sqrt(),
        lambda x: EPS / (x.square().sum(-1, keepdim=True) + EPS),
        "in-root", "l2norm", gain=WIDTH**-0.5,
    ),
    "length times the root of the width": Form(
        lambda x: x * WIDTH**0.5 / (_length(x) + EPS), lambda x: (_length(x) + EPS) * WIDTH**-0.5,
        lambda x: EPS / (_length(x) + EPS), "on-root", "rmsnorm", eps=EPS * WIDTH**-0.5,
    ),
    "unbiased, on the root": Form(
        lambda x: _centre(x) / (_std(x) + EPS), lambda x: _std(x) + EPS,
        lambda x: EPS / (_std(x) + EPS), "on-root", "layernorm",
        gain=((WIDTH - 1) / WIDTH) ** 0.5,
    ),
    "unbiased, in the root": Form(
        lambda x: _centre(x) / torch.sqrt(x.var(-1, keepdim=True) + EPS),
        lambda x: (x.var(-1, keepdim=True) + EPS).sqrt(),
        lambda x: EPS / (x.var(-1, keepdim=True) + EPS), "in-root", "layernorm",
        gain=((WIDTH - 1) / WIDTH) ** 0.5,
    ),
}  # fmt: skip


class Normed(nn.Module):
    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x)


class Net(nn.Module):
    def __init__(self, function: Function) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            self.norms = nn.ModuleList(Normed(function) for _ in range(2))
            self.branches = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for norm, branch in zip(self.norms, self.branches, strict=True):
            x = x + branch(norm(x))
        return x


def _inputs(scale: float) -> torch.Tensor:
    draws = torch.Generator().manual_seed(0)
    return scale * (torch.randn(2, 5, WIDTH, generator=draws, dtype=torch.float64) + 0.3)


@cache
def _measure(name: str, scale: float) -> Report:
    model = Net(FORMS[name].function).double().eval()
    return normdiag.inspect(model, inputs=_inputs(scale), measure=["stream", "norms", "jacobians"])


@pytest.mark.parametrize("name", FORMS)
def test_value_and_form(name: str) -> None:
    form, report = FORMS[name], _measure(name, 1.0)
    norm = report.architecture.norms[0]
    assert (norm.kind, norm.eps_form) == (form.kind, form.eps_form)
    assert norm.eps == pytest.approx(form.eps, rel=1e-12)
    x = _inputs(1e6)  # so large that epsilon has no effect
    assert norm.statistic_gain == pytest.approx(form.gain, rel=1e-12)
    assert float(_ms(form.function(x)).mean().sqrt()) == pytest.approx(form.gain, rel=1e-6)
    assert report.measurements.replay[norm.id].max_rel_error < 1e-12


@pytest.mark.parametrize("scale", [1.0, 0.05, 0.001])
@pytest.mark.parametrize("name", FORMS)
def test_share_and_amplification(name: str, scale: float) -> None:
    form = FORMS[name]
    report = _measure(name, scale)
    measured = report.measurements.norms[report.architecture.norms[0].id]
    x = _inputs(scale)
    share, factor = form.share(x).flatten(), 1 / form.denominator(x).flatten()
    assert measured.eps_share.median == pytest.approx(float(share.quantile(0.5)), rel=1e-9)
    assert measured.eps_share.max == pytest.approx(float(share.max()), rel=1e-9)
    assert measured.amplification.median == pytest.approx(float(factor.quantile(0.5)), rel=1e-9)
    largest = form.denominator(torch.zeros(1, WIDTH, dtype=torch.float64))
    assert measured.amplification.bound == pytest.approx(1 / float(largest), rel=1e-9)
    constant = (form.function(x).norm(dim=-1) / WIDTH**0.5 / form.gain <= 0.001).sum()
    assert measured.constant == int(constant)


@pytest.mark.parametrize("scale", [1.0, 0.001])
@pytest.mark.parametrize("name", FORMS)
def test_the_jacobian(name: str, scale: float) -> None:
    """Closed forms hold with epsilon in the root, and above a floor; else there is none."""
    form = FORMS[name]
    report = _measure(name, scale)
    jacobian = report.measurements.norms[report.architecture.norms[0].id].jacobian
    x = _inputs(scale).reshape(-1, WIDTH)
    is_floor = form.eps_form.startswith("floor")
    is_closed = form.eps_form == "in-root" or (is_floor and not bool(form.share(x).any()))
    if form.kind == "l2norm" or not is_closed:
        assert jacobian is None
        return
    assert jacobian is not None
    values = torch.stack([torch.linalg.svdvals(torch.func.jacrev(form.function)(r)) for r in x])
    assert jacobian.sigma_max.max == pytest.approx(float(values[:, 0].max()), rel=1e-6)


def test_one_epsilon_in_two_units() -> None:
    """The floor of the mean square is 0.05 itself, not its root."""
    in_root, of_root = (
        _measure(name, 1.0).architecture.norms[0]
        for name in ("floor of the mean square", "floor of the root")
    )
    assert in_root.eps == of_root.eps == EPS
    assert in_root.eps_form != of_root.eps_form


@pytest.mark.parametrize("name", [name for name in FORMS if FORMS[name].kind == "rmsnorm"])
@pytest.mark.parametrize("scale", [1.0, 0.05])
def test_the_swap_keeps_the_form(name: str, scale: float) -> None:
    """LayerNorm in an RMSNorm's place is the same formula of x - mean(x)."""
    function = FORMS[name].function
    model = Net(function).double().eval()
    report = normdiag.inspect(model, inputs=_inputs(scale), measure=["norms", "centring-swap"])
    swap = report.measurements.norm_swap
    assert swap is not None
    x = _inputs(scale)
    before, after = function(x), function(_centre(x))
    change = ((after - before).norm(dim=-1) / before.norm(dim=-1)).flatten()
    alone = swap.alone[report.architecture.norms[0].id]
    assert alone.median == pytest.approx(float(change.quantile(0.5)), rel=1e-9)
    assert alone.max == pytest.approx(float(change.max()), rel=1e-9)
    assert swap.swapped == 2
