from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from normdiag.number_text import format_number
from tests.rules.builders import one, run_rule
from tests.rules.parameters.gains import with_gains


def draw_gain(centre: float, deviation: float = 0.1, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return centre + deviation * torch.randn(64, generator=generator, dtype=torch.float64)


def everywhere(centre: float, layers: int = 8, **given):
    return with_gains({k: draw_gain(centre, seed=k) for k in range(layers)}, layers, **given)


@pytest.mark.parametrize("centre", [0.3, 0.5, 1.0, 1.3])
def test_plain_gains_are_silent(centre: float) -> None:
    assert run_rule(everywhere(centre), "ND204") == ()
    assert run_rule(everywhere(centre, offset=1.0), "ND204") == ()


@pytest.mark.parametrize("centre", [0.0, -0.5])
def test_the_one_is_missing(centre: float) -> None:
    seen = everywhere(centre)
    finding = one(seen, "ND204")
    gains = [norm.gain for norm in seen.architecture.norms]
    assert (finding.severity, finding.value, finding.threshold) == ("warning", 1.0, 0.5)
    assert len(finding.ids) == 8
    mean = sum(gain.mean for gain in gains) / 8
    negative = sum(gain.negatives for gain in gains) / 512
    assert f"share of negative gains {format_number(negative)}" in finding.message
    assert f"mean gain {format_number(mean)}" in finding.message
    assert "8 of 8 norms (threshold 0.5)" in finding.message and "layers 0-7" in finding.message


def test_zeros_throughout_are_w_of_a_new_model() -> None:
    assert one(with_gains({k: torch.zeros(64) for k in range(8)}), "ND204").value == 1.0


def test_half_of_the_norms_prove_nothing() -> None:
    assert run_rule(with_gains({k: draw_gain(0.0, seed=k) for k in range(4)}), "ND204") == ()
    assert one(with_gains({k: draw_gain(0.0, seed=k) for k in range(5)}), "ND204").value == 5 / 8


@pytest.mark.parametrize(("offset", "confidence"), [(1.0, "medium"), (0.0, "low")])
def test_the_one_is_there_twice(offset: float, confidence: str) -> None:
    finding = one(everywhere(2.0, offset=offset), "ND204")
    assert (finding.severity, finding.confidence, finding.value) == ("warning", confidence, 1.0)
    assert "only gains above 1" in finding.message and "mean gain 2" in finding.message


def test_learned_gains_that_are_doubled_spread_wide() -> None:
    wide = {k: 2 + 8 * torch.rand(64, generator=torch.Generator().manual_seed(k)) for k in range(8)}
    assert one(with_gains(wide, offset=1.0), "ND204").confidence == "medium"


def test_one_large_norm_is_a_learned_one() -> None:
    assert run_rule(with_gains({7: draw_gain(6.0)}, offset=1.0), "ND204") == ()


def zero_gains(bias_rms: float | None):
    seen = with_gains({k: torch.zeros(64) for k in range(8)})
    norms = tuple(replace(norm, bias_rms=bias_rms) for norm in seen.architecture.norms)
    return replace(seen, architecture=replace(seen.architecture, norms=norms))


def test_gain_and_bias_that_are_exchanged() -> None:
    finding = one(zero_gains(1.0), "ND204")
    assert "gains of exactly 0" in finding.message and "biases of mean rms 1.000" in finding.message
    assert "may be exchanged" in finding.message and "add 1" not in finding.advice


@pytest.mark.parametrize(
    ("bias_rms", "output"), [(None, "outputs 0"), (0.02, "outputs its bias alone")]
)
def test_gains_of_zero_are_no_exchange(bias_rms: float | None, output: str) -> None:
    finding = one(zero_gains(bias_rms), "ND204")
    assert output in finding.message and "exchanged" not in finding.message
    assert "negative" not in finding.message and "not loaded" in finding.advice


@pytest.mark.parametrize(("centre", "remedy"), [(2.0, "subtract 1 from"), (3.0, "about 2 from")])
def test_the_remedy_follows_the_mean_gain(centre: float, remedy: str) -> None:
    seen = everywhere(centre, offset=1.0)
    mean = sum(norm.gain.mean for norm in seen.architecture.norms) / 8
    finding = one(seen, "ND204")
    assert f"{format_number(mean - 1)} above 1" in finding.message and remedy in finding.advice
