"""Gradients of one stack with one thing in them."""

from __future__ import annotations

from typing import Any

from normdiag.evidence.evidence import Evidence
from normdiag.evidence.gradients import Clipping, Gradients, GradientTrend, Loss
from tests.rules.builders import STACK, evidence, make_adds, stack


def gradients(**given: Any) -> Gradients:
    """Sound ones, but for what is given."""
    stream = {add.id: 0.01 for add in make_adds(32)}
    sound = {
        "loss": Loss(kind="causal-lm", value=2.5, tokens=63),
        "stream": stream,
        "ratio_last_first": 1.0,
        "ratios": {STACK: 1.0},
        "trends": {STACK: GradientTrend(rate=1.0, rate_error=0.001, total=1.0)},
        "groups": {"embed": 0.4, f"{STACK}.0": 0.6},
        "global_norm": 4.0,
        "clipping": Clipping(max_norm=1.0, factor=0.25, dominant_group=f"{STACK}.0"),
    }
    return Gradients(**{**sound, **given})


def flowing(**given: Any) -> Evidence:
    return evidence(stacks=(stack(32),), adds=make_adds(32), gradients=gradients(**given))


def trend(rate: float, total: float, error: float | None = 0.002) -> Evidence:
    return flowing(trends={STACK: GradientTrend(rate=rate, rate_error=error, total=total)})
