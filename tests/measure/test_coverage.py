"""What was not understood, not run or not attached is said."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import normdiag
from normdiag.evidence.coverage import Coverage
from normdiag.measures import DEFAULT_MEASURES


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.ln, self.f, self.g = nn.LayerNorm(16), nn.Linear(16, 16), nn.Linear(16, 16)

    def forward(self, x):
        return x + self.f(self.ln(x))


class ForgottenSkip(Block):
    def forward(self, x):
        h = self.ln(x)
        return self.f(h) + self.g(h)


@torch.library.custom_op("normdiag_tests::shifted", mutates_args=())
def opaque_shift(x: torch.Tensor) -> torch.Tensor:
    """A kernel that nothing of torch can look into."""
    return x + 1


class Kernel(Block):
    def forward(self, x):
        return opaque_shift(super().forward(x))


class KernelOnBranch(Block):
    def forward(self, x):
        return x + opaque_shift(self.f(self.ln(x)))


class Model(nn.Module):
    def __init__(self, odd: type[Block] = Block, extra: nn.Module | None = None) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(odd() if i == 2 else Block() for i in range(5))
        self.ln_f = nn.LayerNorm(16)
        self.extra = extra

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.ln_f(x)


FORWARD = ("stream", "norms")
"""What needs no derivative: the kernels here have none."""


def coverage(model: nn.Module, measure: tuple[str, ...] = DEFAULT_MEASURES) -> Coverage:
    torch.manual_seed(0)
    return normdiag.inspect(model, inputs=torch.randn(2, 5, 16), measure=measure).coverage


def test_nothing_is_said_of_a_model_that_was_understood() -> None:
    found = coverage(Model())
    assert (found.unexplained_adds, found.unexplained_norms, found.skipped) == ((), (), ())


def test_an_addition_on_the_trunk_that_is_no_residual_add() -> None:
    (found,) = coverage(Model(ForgottenSkip)).unexplained_adds
    assert (found.module, found.shape) == ("blocks.2", (2, 5, 16))
    assert found.line is not None
    assert found.line.startswith("test_coverage.py:")


class TestKernels:
    def test_one_that_the_stream_runs_through_is_named(self) -> None:
        (found,) = coverage(Model(Kernel), FORWARD).skipped
        assert found.what == "normdiag_tests::shifted in blocks.2"

    def test_one_on_a_branch_hides_nothing_of_the_stream(self) -> None:
        assert coverage(Model(KernelOnBranch), FORWARD).skipped == ()

    def test_one_without_a_derivative_leaves_its_blocks_out(self) -> None:
        (found,) = coverage(Model(KernelOnBranch), ("jacobians",)).skipped
        assert "blocks.2/add#0" in found.what
        assert "blocks.0/add#0" not in found.what
        assert "no autograd formula" in found.why


class TestModulesNotCalled:
    def test_what_is_around_them_is_named_first(self) -> None:
        extra = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.LayerNorm(3))
        found = coverage(Model(extra=extra)).modules_not_called
        assert {"extra.0", "extra.2"} <= set(found)
        assert "extra.1" not in found
        assert found.index("extra") < found.index("extra.0")
        assert "blocks.0.g" in found

    def test_what_holds_one_that_ran_is_at_work(self) -> None:
        class Half(Model):
            def forward(self, x):
                return super().forward(self.extra[0](x))

        found = coverage(Half(extra=nn.Sequential(nn.Linear(16, 16), nn.Linear(3, 3))))
        assert "extra" not in found.modules_not_called
        assert "extra.1" in found.modules_not_called

    def test_not_those_whose_parameters_are_read_by_others(self) -> None:
        """A tied head, or a weight that another module's code multiplies by."""

        class Reading(Model):
            def forward(self, x):
                return super().forward(x) @ self.extra.weight

        assert "extra" not in coverage(Reading(extra=nn.Linear(16, 16))).modules_not_called


@pytest.mark.parametrize("attached", [True, False])
def test_a_norm_that_no_stream_meets(attached: bool) -> None:
    class Beside(Model):
        def forward(self, x):
            return super().forward(x), self.extra(x.exp().sum(1))

    model = Model() if attached else Beside(extra=nn.LayerNorm(16))
    assert coverage(model).unexplained_norms == (() if attached else ("extra",))


def test_every_operation_is_counted() -> None:
    assert coverage(nn.Sequential(nn.Tanh(), nn.Tanh())).operations >= 2
