"""The sentence about growth claims no more than the fit does."""

from dataclasses import replace

import pytest

from normdiag.evidence.stream import Growth, GrowthLeap, GrowthPhase
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
    assert "last add over first 261× (mean over tokens without the first of each sequence)" in said


def test_the_growth_at_initialisation_stands_beside_it():
    measured = replace(law("additive", 1.0, 0.1, total=31.0), init_total=10.0, total_over_init=3.1)
    assert "of each sequence); at random initialisation 10.0× (one seed" in describe_growth(
        measured
    )
    assert "initialisation" not in describe_growth(measured, "post")
    assert "initialisation" not in describe_growth(law("additive", 1.0, 0.1))


def test_phases_and_the_leaps_between_them():
    phases = (
        GrowthPhase(first=0, last=0, factor=1.0, step=None),
        GrowthPhase(first=1, last=22, factor=1.0331, step=15.0),
        GrowthPhase(first=23, last=59, factor=1.0407, step=1.2),
    )
    said = describe_growth(replace(law("additive", 1.0, 0.1), phases=phases))
    assert (
        "Phases: 1.000× per add in add 0, a jump of 15.0×, 1.033× per add in adds 1-22, "
        "1.041× per add in adds 23-59. Law: additive" in said
    )
    assert "Phases" not in describe_growth(law("additive", 1.0, 0.1))


def test_where_the_stream_starts_and_leaps():
    growth = replace(
        law("geometric", 1.05, 0.001, total=300.0),
        start="layers.0/add#1",
        total_after_start=18.0,
        leaps=(GrowthLeap(add="layers.9/add#1", factor=2.25),),
        misfit=0.02,
        runner_up="additive",
    )
    text = describe_growth(growth)
    assert "The update of layers.0/add#1 starts the stream; behind it 18.0×." in text
    assert "Leaps: 2.25× at layers.9/add#1." in text
    assert text.endswith(
        "Law behind the start and apart from the leaps: geometric, 1.050× per add ± 0.0010 "
        "(standard error), misfit 2.0% (root mean square); Akaike weight 90%, next: additive."
    )


def test_a_stream_that_keeps_its_size_and_one_without_a_law():
    kept = replace(law("constant", None, None, total=1.1), range=1.3, confidence=None)
    assert "Law: constant, the stream keeps its size (largest norm over smallest: 1.300)." in (
        describe_growth(kept)
    )
    none = replace(law("undecided", None, None), runner_up="power", confidence=None)
    assert describe_growth(none).endswith("Law: none describes all adds; nearest: power.")


def test_sums_before_a_norm_are_called_so():
    assert "sums before their norms" in describe_growth(law("additive", 1.0, 0.1), "post")
    assert "norms, whose" not in describe_growth(law("additive", 1.0, 0.1), "pre")
