"""Evidence of norms with given gains."""

from __future__ import annotations

from dataclasses import replace

import torch

from normdiag.evidence.evidence import Evidence
from normdiag.measure.passes.learned_values import summarise_gain
from tests.rules.builders import evidence, make_measurement, norms


def with_gains(gains: dict[int, torch.Tensor], layers: int = 8, offset: float = 0.0) -> Evidence:
    """Layer -> its norm's gain; ones elsewhere."""
    made = norms(layers, kind="rmsnorm")
    made = tuple(
        replace(norm, gain=summarise_gain(gains.get(norm.layer, torch.ones(64)).double(), offset))
        for norm in made
    )
    return evidence(norms=made, norm_inputs={norm.id: make_measurement(1e-5) for norm in made})


def ones(**channels: float) -> torch.Tensor:
    """64 ones; `c7=0.0` sets channel 7."""
    gain = torch.ones(64, dtype=torch.float64)
    for name, value in channels.items():
        gain[int(name.removeprefix("c"))] = value
    return gain
