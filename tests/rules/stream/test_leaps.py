"""A stream that leaps at one add: no rate, no silent branches behind it, but the leap's cause."""

from __future__ import annotations

from dataclasses import replace

from normdiag.evidence.architecture import Multiplier
from normdiag.evidence.evidence import Evidence
from normdiag.evidence.gradients import GradientTrend
from normdiag.evidence.stream import Growth, GrowthLeap
from tests import factories
from tests.rules.builders import STACK, evidence, make_adds, one, run_rule, stack
from tests.rules.gradient.flow import gradients

LEAP = 3


def leaping(ratios: list[float], factor: float, **measured: object) -> Evidence:
    """The stream leaps at add 3, whose branch a buffer multiplies."""
    adds = list(make_adds(len(ratios)))
    adds[LEAP] = replace(adds[LEAP], multipliers=(Multiplier(name="gate.size", value=5e4),))
    growth = Growth(
        law="constant",
        rate=None,
        rate_error=None,
        confidence=None,
        total=factor,
        leaps=(GrowthLeap(add=adds[LEAP].id, factor=factor),),
    )
    stream = {
        add.id: factories.add_measurement(update=ratio)
        for add, ratio in zip(adds, ratios, strict=True)
    }
    return evidence(
        stacks=(stack(len(ratios)),),
        adds=tuple(adds),
        stream=stream,
        growth={STACK: growth},
        **measured,
    )


def test_branches_behind_a_leap_are_not_called_silent() -> None:
    finding = one(leaping([0.3, 0.3, 0.3, 4e4, 6e-6, 5e-6], 4e4), "ND402")
    assert finding.ids == (f"{STACK}.3/add#0", f"{STACK}.5/add#0", f"{STACK}.4/add#0")
    assert "leaps at layers.3/add#0, by a factor of 40,000" in finding.message
    assert "gate.size = 50,000" in finding.message
    assert finding.advice is not None and "removed" not in finding.advice


def test_a_branch_that_is_silent_before_the_leap_too_stays_silent() -> None:
    dwarfed, silent = run_rule(leaping([0.3, 0.3, 0.3, 4e4, 6e-6, 1e-12], 4e4), "ND402")
    assert "leaps" in dwarfed.message and silent.ids == (f"{STACK}.5/add#0",)


def test_a_closed_multiplier_is_named() -> None:
    adds = make_adds(5, multipliers=(Multiplier(name="gate.size", value=0.0),))
    stream = {add.id: factories.add_measurement(update=0.0) for add in adds}
    finding = one(evidence(stacks=(stack(5),), adds=adds, stream=stream), "ND402")
    assert "multiplied by gate.size = 0" in finding.message


def test_a_gradient_with_one_step_has_no_rate() -> None:
    adds = make_adds(6)
    norms = [0.05, 0.05, 0.04, 2e-6, 2e-6, 1e-6]
    flow = gradients(
        stream={add.id: norm for add, norm in zip(adds, norms, strict=True)},
        trends={STACK: GradientTrend(rate=0.08, rate_error=0.01, total=1e-6)},
    )
    finding = one(leaping([0.3] * 6, 4e4, gradients=flow), "ND602")
    assert finding.ids == (f"{STACK}.3/add#0",)
    assert "20,000 times as large before layers.3/add#0" in finding.message
    assert "gate.size = 50,000" in finding.message and "per layer from" not in finding.message
