"""The sentence about growth claims no more than the fit does."""

from dataclasses import replace

import pytest

from normdiag.evidence.stream import Growth, GrowthPhase
from normdiag.render.sections.growth import describe_growth


def law(name, rate, error, total=3.0):
    return Growth(law=name, rate=rate, rate_error=error, confidence=0.9, total=total)


@pytest.mark.parametrize(
    ("name", "rate"), [("additive", 150.0), ("geometric", 1.08), ("power", -0.4)]
)
def test_a_rate_below_its_own_error_is_not_taken_for_one(name, rate):
    assert "not determined by these adds" in describe_growth(law(name, rate, 2 * abs(rate)))
    assert "not determined" not in describe_growth(law(name, rate, abs(rate) / 2))
    assert "±" not in describe_growth(law(name, rate, None))


def test_it_says_over_which_tokens_the_stream_grew():
    said = describe_growth(law("additive", 1.0, 0.1, total=261.0))
    assert "Last add over first: 261× (mean over tokens without the first of each sequence)" in said


def test_the_growth_at_initialisation_stands_beside_it():
    measured = replace(law("additive", 1.0, 0.1, total=31.0), init_total=10.0, total_over_init=3.1)
    assert "of each sequence), 3.10× that at initialisation" in describe_growth(measured)
    assert "initialisation" not in describe_growth(law("additive", 1.0, 0.1))


def test_phases_and_the_leaps_between_them():
    phases = (
        GrowthPhase(first=0, last=0, factor=1.0, step=None),
        GrowthPhase(first=1, last=22, factor=1.0331, step=15.0),
        GrowthPhase(first=23, last=59, factor=1.0407, step=1.2),
    )
    said = describe_growth(replace(law("additive", 1.0, 0.1), phases=phases))
    assert said.endswith(
        "Phases: 1.000× per add in add 0, a jump of 15.0×, 1.033× per add in adds 1-22, "
        "1.041× per add in adds 23-59."
    )
    assert "Phases" not in describe_growth(law("additive", 1.0, 0.1))
