from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from tests.rules.builders import one, run_rule
from tests.rules.parameters.gains import with_gains


def draw_gains(levels: list[float]) -> dict[int, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    noise = [torch.randn(64, generator=generator, dtype=torch.float64) for _ in levels]
    return {k: level * (1 + 0.1 * noise[k]) for k, level in enumerate(levels)}


@pytest.mark.parametrize(
    "levels",
    [
        [1.0] * 8,
        [0.2 + 0.1 * layer for layer in range(8)],
        [2.0**layer for layer in range(8)],
        [0.05, *[1.0] * 7],
        [0.002] * 4 + [1.0] * 4,
    ],
)
def test_even_and_gradual_levels_are_silent(levels: list[float]) -> None:
    assert run_rule(with_gains(draw_gains(levels)), "ND206") == ()


@pytest.mark.parametrize("factor", [0.003, 400.0])
def test_a_level_apart_from_its_peers(factor: float) -> None:
    gains = draw_gains([factor if layer == 5 else 1.0 for layer in range(8)])
    level = {layer: float(gain.abs().quantile(0.5)) for layer, gain in gains.items()}
    others = [value for layer, value in level.items() if layer != 5]
    ratio = min(others) / level[5] if factor < 1 else level[5] / max(others)
    finding = one(with_gains(gains), "ND206")
    assert finding.ids == ("layers.5.norm",)
    assert finding.value == pytest.approx(ratio, rel=0.01)
    assert ("below" if factor < 1 else "above") in finding.message


def test_two_low_of_eight_are_reported_together() -> None:
    gains = draw_gains(
        [0.001 if layer == 2 else 0.002 if layer == 6 else 1.0 for layer in range(8)]
    )
    assert one(with_gains(gains), "ND206").ids == ("layers.2.norm", "layers.6.norm")


def test_norms_at_other_positions_are_no_peers() -> None:
    seen = with_gains(draw_gains([1.0, 0.003] * 4))
    # Two norms in each of four layers: the second ones are low in all.
    paired = tuple(
        replace(norm, layer=index // 2) for index, norm in enumerate(seen.architecture.norms)
    )
    assert (
        run_rule(replace(seen, architecture=replace(seen.architecture, norms=paired)), "ND206")
        == ()
    )
