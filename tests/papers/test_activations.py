"""What is unlike the rest: T16 massive activations, T17 the mean direction.

Sun et al. 2024 (2402.17762): |h| > 100 and |h| >= 1000 times the median. Gupta et al. 2024
(2409.12951): the energy along the ones vector, H mean(x)^2 / ||x||^2, has the chance level 1/H.
"""

from __future__ import annotations

import pytest
import torch

import normdiag
from sample_models import pre_norm


def severities(largest: float, median: float) -> list[str]:
    """Of what is said of a stream whose values are +-median but for one."""
    model, _ = pre_norm.build(layers=2)
    with torch.no_grad():
        for block in model.blocks:
            block.fc.weight.mul_(1e-6)
            block.fc.bias.zero_()
    x = median * torch.where(torch.arange(64) % 2 == 0, 1.0, -1.0).repeat(1, 8, 1)
    x[0, 3, 7] = largest  # not at the first token, where sinks are
    found = normdiag.inspect(model, inputs=x, measure=("stream",)).findings
    return [finding.severity for finding in found if finding.name == "massive-activation"]


@pytest.mark.parametrize(
    ("largest", "median", "said"),
    [(500, 0.2, ["info"]), (150, 0.2, []), (90, 0.01, ["info"])],
)
def test_t16_massive_is_large_in_both_senses(
    largest: float, median: float, said: list[str]
) -> None:
    """150 is 750 times its median: nothing. 90 is 9000 times its: an outlier, and no more."""
    assert severities(largest, median) == said


def test_t17_noise_has_the_mean_energy_of_chance() -> None:
    """H x mean energy = 1 (5 %, N = 4000)."""
    model, _ = pre_norm.build(layers=2)
    x = torch.randn(8, 500, 64, generator=torch.Generator().manual_seed(0))
    seen = normdiag.inspect(model, inputs=x, measure=("norms",)).measurements.norms["blocks.0.ln1"]
    assert seen.tokens == 4000
    assert 64 * seen.mean_energy == pytest.approx(1.0, rel=0.05)
