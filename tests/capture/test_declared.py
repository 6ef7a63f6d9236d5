"""Custom operations are read as what was declared of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import normdiag
from normdiag.capture.declared import DECLARED
from normdiag.errors import NormdiagError, UsageError
from normdiag.report.report import Report
from sample_models.norms import EPS, functional_ln, two_pass_ln
from sample_models.spelled import Spelled
from tests.structure.signature import signature

IDS = torch.arange(32).view(2, 16) % 11


@torch.library.custom_op("normdiag_test::add", mutates_args=())
def add(x: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
    return x + u


@torch.library.custom_op("normdiag_test::layer_norm", mutates_args=())
def layer_norm(
    x: torch.Tensor, gain: torch.Tensor, bias: torch.Tensor, eps: float = EPS
) -> torch.Tensor:
    return two_pass_ln(x, gain, bias, eps)


@torch.library.custom_op("normdiag_test::post_norm", mutates_args=())
def post_norm(x: torch.Tensor, u: torch.Tensor, gain: torch.Tensor) -> torch.Tensor:
    return F.rms_norm(x + u, gain.shape, gain, 1e-6)


@torch.library.custom_op("normdiag_test::add_rms_norm", mutates_args=("x", "residual"))
def add_rms_norm(x: torch.Tensor, residual: torch.Tensor, gain: torch.Tensor, eps: float) -> None:
    residual.add_(x)
    x.copy_(F.rms_norm(residual, gain.shape, gain, eps))


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    before = dict(DECLARED)
    yield
    DECLARED.clear()
    DECLARED.update(before)


def report_of(norm: object = functional_ln, add: object = torch.add) -> Report:
    # the kernels of these tests have no derivative
    measured = ("stream", "norms")
    return normdiag.inspect(Spelled(norm, EPS, add=add).eval(), inputs=IDS, measure=measured)


def test_an_undeclared_add_is_not_guessed() -> None:
    report = report_of(add=add)
    assert report.architecture.residual_adds == ()
    assert {f.code for f in report.findings} == {"ND001"}


def test_a_declared_add_is_an_add() -> None:
    normdiag.declare_residual_add("normdiag_test::add", skip=0, branch=1)
    report = report_of(add=add)
    assert signature(report) == signature(report_of())
    assert report.findings == ()


def test_the_positions_may_be_the_other_way_round() -> None:
    normdiag.declare_residual_add("normdiag_test::add", skip=1, branch=0)
    assert signature(report_of(add=lambda x, u: add(u, x))) == signature(report_of())


@pytest.mark.parametrize("has_gain", [True, False])
def test_a_declared_norm_is_a_norm(has_gain: bool) -> None:
    normdiag.declare_norm("normdiag_test::layer_norm", kind="layernorm", gain=1, bias=2, eps=3)
    norm = layer_norm if has_gain else lambda x, gain, bias, eps: layer_norm(x, gain, bias)
    report = report_of(norm)
    assert signature(report) == signature(report_of())
    assert max(r.max_rel_error for r in report.measurements.replay.values()) < 1e-5


def test_a_wrong_declaration_does_not_replay() -> None:
    normdiag.declare_norm("normdiag_test::layer_norm", kind="rmsnorm", gain=1, bias=2, eps=3)
    assert "ND002" in {f.code for f in report_of(layer_norm).findings}


class Fused(nn.Module):
    """Layers as inference engines write them: a branch, then the fused add and norm."""

    def __init__(self, is_post: bool) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            self.embed = nn.Embedding(11, 16)
            self.layers = nn.ModuleList(
                nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16)) for _ in range(3)
            )
            self.gains = nn.ParameterList(1 + 0.1 * torch.randn(16) for _ in range(4))
        self.is_post = is_post

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        residual = self.embed(ids)
        if self.is_post:
            for layer, gain in zip(self.layers, list(self.gains)[1:], strict=True):
                residual = post_norm(residual, layer(residual), gain)
            return residual
        h = F.rms_norm(residual, (16,), self.gains[0], 1e-6)
        for layer, gain in zip(self.layers, list(self.gains)[1:], strict=True):
            h = layer(h).clone()
            add_rms_norm(h, residual, gain, 1e-6)
        return h


def test_an_add_and_norm_that_write_in_place() -> None:
    name = "normdiag_test::add_rms_norm"
    normdiag.declare_residual_add(name, skip=1, branch=0, output=1)
    normdiag.declare_norm(name, kind="rmsnorm", x=None, gain=2, eps=3, output=0)
    report = normdiag.inspect(Fused(is_post=False).eval(), inputs=IDS)
    (stack,) = report.architecture.stacks
    assert (stack.placement, stack.norm_kind, stack.layers) == ("pre", "rmsnorm", 3)
    assert [n.role for n in report.architecture.norms] == ["branch-input"] * 3 + ["final"]
    assert max(r.max_rel_error for r in report.measurements.replay.values()) < 1e-5
    closure = report.measurements.closure[stack.id]
    assert closure.max_rel_error < 1e-5


def test_a_sum_that_is_not_returned() -> None:
    name = "normdiag_test::post_norm"
    normdiag.declare_residual_add(name, output=None)
    normdiag.declare_norm(name, kind="rmsnorm", x=None, gain=2, eps=1e-6)
    report = normdiag.inspect(Fused(is_post=True).eval(), inputs=IDS)
    (stack,) = report.architecture.stacks
    assert (stack.placement, stack.norm_kind) == ("post", "rmsnorm")
    assert {n.eps for n in report.architecture.norms} == {1e-6}
    assert max(r.max_rel_error for r in report.measurements.replay.values()) < 1e-5


@pytest.mark.parametrize("name", ["add", "normdiag_test.add", "a::b::c", ""])
def test_a_name_without_a_namespace_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="not the name of an operation"):
        normdiag.declare_residual_add(name)


def test_a_kind_that_cannot_be_meant_is_refused() -> None:
    with pytest.raises(UsageError, match="groupnorm"):
        normdiag.declare_norm("a::b", kind="groupnorm")  # type: ignore[arg-type]


def test_a_negative_position_is_refused() -> None:
    with pytest.raises(UsageError, match="skip=-1"):
        normdiag.declare_residual_add("a::b", skip=-1)


@pytest.mark.parametrize(
    ("skip", "output", "match"),
    [(5, 0, "argument 5 is declared"), (0, 3, "result 3 of normdiag_test::add is declared")],
)
def test_a_missing_argument_is_named(skip: int, output: int, match: str) -> None:
    normdiag.declare_residual_add("normdiag_test::add", skip=skip, output=output)
    with pytest.raises(NormdiagError, match=match):
        report_of(add=add)


def test_a_norm_of_an_undeclared_sum_is_an_error() -> None:
    normdiag.declare_norm("normdiag_test::add", kind="rmsnorm", x=None)
    with pytest.raises(NormdiagError, match="no sum is declared"):
        report_of(add=add)
