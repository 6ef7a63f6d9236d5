"""What removing the mean takes away from the inputs of the norms of each kind."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median
from typing import Literal

from normdiag.evidence.architecture import Architecture
from normdiag.evidence.invariances import CentringEffect
from normdiag.evidence.norm_inputs import NormMeasurement

KINDS: tuple[Literal["layernorm", "rmsnorm"], ...] = ("layernorm", "rmsnorm")


def measure_centring(
    architecture: Architecture, norm_inputs: Mapping[str, NormMeasurement]
) -> tuple[CentringEffect, ...]:
    """Summarise H mean(x)^2 / ||x||^2 times H, 1 by chance, over the norms of each kind.

    Norms of queries and keys are left out: their H is a head's.
    """
    effects = []
    for kind in KINDS:
        times_chance = {
            norm.id: norm_inputs[norm.id].mean_energy * norm.features
            for norm in architecture.norms
            if norm.kind == kind and norm.role != "qk" and norm.id in norm_inputs
        }
        if times_chance:
            largest = max(times_chance, key=lambda id: times_chance[id])
            effects.append(
                CentringEffect(
                    kind=kind,
                    norms=len(times_chance),
                    median=median(times_chance.values()),
                    max=times_chance[largest],
                    norm=largest,
                    share=norm_inputs[largest].mean_energy,
                )
            )
    return tuple(effects)
