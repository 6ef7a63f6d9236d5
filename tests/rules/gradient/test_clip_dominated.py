from __future__ import annotations

import math
from dataclasses import replace

import pytest

from normdiag.evidence.evidence import Evidence
from normdiag.evidence.gradients import Clipping, Loss
from normdiag.evidence.invariances import Invariances, ScaleInvariantWeight
from tests.rules.builders import one, run_rule
from tests.rules.gradient.flow import flowing

GROUP = "layers.0"


def make_gradients(
    share: float, total: float = 100.0, at: float = 1.0, **given: object
) -> Evidence:
    return flowing(
        groups={GROUP: share, "embed": 1 - share},
        global_norm=total,
        clipping=Clipping(max_norm=at, factor=min(1.0, at / total), dominant_group=GROUP),
        **given,
    )


def test_one_group_holds_all_others_back() -> None:
    """G = 100 of which the rest is 1: alone it would not be clipped at all."""
    finding = one(make_gradients(0.9999), "ND603")
    assert finding.value == pytest.approx(100.0)
    assert (finding.threshold, finding.ids, finding.severity) == (10.0, (GROUP,), "info")
    assert "scales every gradient by 0.01" in finding.message
    assert "layers.0 holds 0.9999 of the squared gradient norm" in finding.message


def test_the_rest_is_clipped_too() -> None:
    """G = 100, the rest 4: clipped at 1 it would be scaled by 1/4, not by 1/100."""
    assert one(make_gradients(1 - 4**2 / 100**2), "ND603").value == pytest.approx(25.0)


@pytest.mark.parametrize(
    "healthy",
    [
        make_gradients(0.9),  # sqrt(10) = 3.2 times
        make_gradients(0.9999, total=0.5),  # nothing is clipped
        make_gradients(0.9999, at=20.0),  # a fifth, and the rest alone not at all: 5 times
        make_gradients(0.9999, loss=Loss(kind="random-projection", value=0.1, tokens=9)),
        flowing(groups={GROUP: 1.0}, global_norm=1e6),
        flowing(
            global_norm=math.nan,
            clipping=Clipping(max_norm=1.0, factor=math.nan, dominant_group=None),
        ),
        flowing(global_norm=None, clipping=None, groups={}),
    ],
)
def test_what_is_not_this_defect_is_silent(healthy: Evidence) -> None:
    assert run_rule(healthy, "ND603") == ()


def test_the_advice_names_the_smallest_weight_whose_scale_is_free() -> None:
    seen = make_gradients(0.9999)
    free = tuple(
        ScaleInvariantWeight(weight=f"{where}.weight", norm="layers.0.ln", frobenius=size)
        for where, size in ((f"{GROUP}.w1", 8.0), (f"{GROUP}.w2", 0.008), ("layers.00.w", 1e-9))
    )
    known = replace(seen.measurements, invariances=Invariances(scale_invariant_weights=free))
    advice = one(replace(seen, measurements=known), "ND603").advice
    assert advice.startswith(
        "scale up layers.0.w2.weight (norm 0.00800): it is read only by layers.0.ln"
    )
    assert "initialised too small" in one(seen, "ND603").advice


def test_the_threshold_can_be_set() -> None:
    assert one(make_gradients(0.9), "ND603", reduction=3.0)
