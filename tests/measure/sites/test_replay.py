"""A site that was read wrongly does not replay."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import nn

from normdiag.measure.sites.replay import apply_norm, relative_error, replay_add, replay_norm
from normdiag.structure.algebraic_forms import DetectedNorm
from tests.measure.forwards import accumulate_forward, only_norm
from tests.measure.test_kinds import KINDS, spread_parameters


def tampered_error(name: str, tamper: Callable[[DetectedNorm], None]) -> float:
    torch.manual_seed(0)
    assembly = accumulate_forward(
        spread_parameters(KINDS[name].make()), torch.randn(KINDS[name].shape) + 0.5
    )
    norm, sample = only_norm(assembly)
    honest = replay_norm(norm, [sample], assembly.learned_values)
    assert honest is not None
    assert honest.max_rel_error < 1e-5
    tamper(norm)
    wrong = replay_norm(norm, [sample], assembly.learned_values)
    return float("nan") if wrong is None else wrong.max_rel_error


def make_change(**values: Any) -> Callable[[DetectedNorm], None]:
    def tamper(norm: DetectedNorm) -> None:
        for field, value in values.items():
            setattr(norm, field, value)

    return tamper


@dataclass(frozen=True)
class Fault:
    kind: str
    tamper: Callable[[DetectedNorm], None]


FAULTS = {
    "another epsilon": Fault("layer norm", make_change(eps=0.1)),
    "epsilon outside the root": Fault("layer norm", make_change(eps=0.1, eps_place="outside")),
    "no centring": Fault("layer norm", make_change(is_centred=False)),
    "centring that is none": Fault("rms norm", make_change(is_centred=True)),
    "no gain": Fault("rms norm", make_change(gains=[])),
    "no bias": Fault("layer norm", make_change(biases=[])),
    "1 + w taken for w": Fault("1 + w", lambda n: setattr(n, "gains", n.gains[0].parents[:1])),
    "unbiased variance": Fault("layer norm", make_change(variance_scale=12 / 11)),
    "a factor": Fault("layer norm", make_change(factor=1.01)),
    "the batch's own statistics": Fault("batch norm", make_change(running_mean=None)),
    "no gain of a tanh": Fault("tanh", make_change(gains=[])),
}
"""Ways to read a norm wrongly."""


@pytest.mark.parametrize("name", FAULTS)
def test_a_wrong_norm_is_seen(name: str) -> None:
    assert tampered_error(FAULTS[name].kind, FAULTS[name].tamper) > 1e-3


def test_a_value_of_the_norm_that_is_off_is_seen() -> None:
    assembly = accumulate_forward(nn.LayerNorm(8), torch.randn(1, 4, 8))
    norm, sample = only_norm(assembly)
    assert sample.output_rows is not None
    sample.output_rows[2, 3] += 0.5
    replayed = replay_norm(norm, [sample], assembly.learned_values)
    assert replayed is not None
    assert replayed.max_rel_error > 0.1


def test_a_square_that_overflows_is_seen() -> None:
    """x / sqrt(inf) is 0, and finite: nothing else tells."""

    class Half(nn.Module):
        def forward(self, x):
            return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-3)

    x = torch.randn(1, 4, 16).half()
    x[0, 1, 5] = 3000
    assembly = accumulate_forward(Half(), x)
    norm, sample = only_norm(assembly)
    replayed = replay_norm(norm, [sample], assembly.learned_values)
    assert replayed is not None
    assert replayed.max_rel_error > 0.5


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(8, 8)

    def forward(self, x):
        return x + self.fc(x)


class Twice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Residual(), Residual()])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def test_a_wrong_add_is_seen() -> None:
    assembly = accumulate_forward(Twice(), torch.randn(1, 4, 8))
    samples = [sample for (sample,) in assembly.add_samples.values()]
    assert len(samples) == 2
    assert replay_add(samples).max_rel_error < 1e-6
    samples[1].branch_rows.mul_(1.1)
    assert replay_add(samples).max_rel_error > 1e-3
    assert replay_add(samples[:1]).max_rel_error < 1e-6


class TestOnTokensOfAStream:
    """Closure applies norms to tokens, whatever the norm takes its statistics over."""

    def test_a_batch_norm_is_a_fixed_map_of_channels(self) -> None:
        torch.manual_seed(0)
        module = spread_parameters(nn.BatchNorm1d(6))
        assembly = accumulate_forward(module, torch.randn(4, 6, 5))
        tokens = torch.randn(9, 6)
        replayed = apply_norm(only_norm(assembly)[0], tokens, assembly.learned_values)
        assert replayed is not None
        torch.testing.assert_close(replayed.float(), module(tokens), rtol=1e-5, atol=1e-5)

    def test_a_norm_over_more_than_a_token_cannot_be_applied(self) -> None:
        assembly = accumulate_forward(spread_parameters(nn.GroupNorm(1, 6)), torch.randn(2, 6, 5))
        replayed = apply_norm(only_norm(assembly)[0], torch.randn(9, 6), assembly.learned_values)
        assert replayed is None


class TestRelativeError:
    def test_it_is_relative_to_the_largest_value_seen(self) -> None:
        expected, actual = torch.tensor([1.0, 10.0]).double(), torch.tensor([1.5, 10.0])
        assert relative_error(expected, actual) == pytest.approx(0.05)

    @pytest.mark.parametrize("bad", [float("nan"), float("inf")])
    def test_finite_against_not_finite_is_no_match(self, bad: float) -> None:
        expected, actual = torch.tensor([1.0, 2.0]).double(), torch.tensor([1.0, bad])
        assert relative_error(expected, actual) == float("inf")

    @pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
    def test_the_same_at_the_same_place_matches(self, bad: float) -> None:
        expected, actual = torch.tensor([1.0, bad]).double(), torch.tensor([1.0, bad])
        assert relative_error(expected, actual) == 0

    def test_infinities_of_two_signs_do_not(self) -> None:
        inf = float("inf")
        expected, actual = torch.tensor([1.0, inf]).double(), torch.tensor([1.0, -inf])
        assert relative_error(expected, actual) == inf

    def test_zeros_have_the_error_itself(self) -> None:
        assert relative_error(torch.full((2,), 1e-3).double(), torch.zeros(2)) == pytest.approx(
            1e-3
        )
