"""The sentence about growth claims no more than the fit does."""

from dataclasses import replace

import pytest

from normdiag.evidence.stream import Growth, Phase
from normdiag.render.sections.growth import sentence


def law(name, rate, error, total=3.0):
    return Growth(law=name, rate=rate, rate_error=error, confidence=0.9, total=total)


@pytest.mark.parametrize(
    ("name", "rate"), [("additive", 150.0), ("geometric", 1.08), ("power", -0.4)]
)
def test_a_rate_below_its_own_error_is_not_taken_for_one(name, rate):
    assert "do not tell the rate" in sentence(law(name, rate, 2 * abs(rate)))
    assert "do not tell" not in sentence(law(name, rate, abs(rate) / 2))
    assert "give or take" not in sentence(law(name, rate, None))


def test_it_says_over_which_tokens_the_stream_grew():
    said = sentence(law("additive", 1.0, 0.1, total=261.0))
    assert "261x from the first add to the last, as the mean over all tokens but the first" in said


def test_the_growth_at_initialisation_stands_beside_it():
    measured = replace(law("additive", 1.0, 0.1, total=31.0), init_total=10.0, over_init=3.1)
    assert "of each sequence, 3.10x the growth at initialisation" in sentence(measured)
    assert "initialisation" not in sentence(law("additive", 1.0, 0.1))


def test_phases_and_the_leaps_between_them():
    phases = (
        Phase(first=0, last=0, factor=1.0, step=None),
        Phase(first=1, last=22, factor=1.0331, step=15.0),
        Phase(first=23, last=59, factor=1.0407, step=1.2),
    )
    said = sentence(replace(law("additive", 1.0, 0.1), phases=phases))
    assert said.endswith(
        "In phases: ×1.000 per add in add 0, a leap of 15.0x, ×1.033 per add in adds 1-22, "
        "×1.041 per add in adds 23-59"
    )
    assert "phases" not in sentence(law("additive", 1.0, 0.1))
