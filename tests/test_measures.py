"""Names of measures: groups, fine measures, what they require, and unknown ones."""

from __future__ import annotations

import pytest

import normdiag
from normdiag.errors import UsageError
from normdiag.measures import (
    DEFAULT_MEASURES,
    GROUPS,
    MEASURES,
    ONE_PASS_MEASURES,
    expand_measures,
    parse_measures,
    sort_measures,
)

NAMES = {measure.name for measure in MEASURES}


def test_each_measure_has_one_line_of_meaning() -> None:
    assert len(NAMES) == len(MEASURES)
    assert all(measure.meaning and "\n" not in measure.meaning for measure in MEASURES)
    assert all(set(measure.requires) <= NAMES for measure in MEASURES)


def test_groups_hold_every_measure_of_the_default_set() -> None:
    grouped = [name for names in GROUPS.values() for name in names]
    assert sorted(grouped) == sorted(NAMES - {"defaults", "norm-speed"})
    assert expand_measures(DEFAULT_MEASURES) == NAMES - {"defaults", "norm-speed"}


@pytest.mark.parametrize("group", GROUPS)
def test_a_group_requires_nothing_outside_but_norm_inputs(group: str) -> None:
    assert expand_measures([group]) - set(GROUPS[group]) <= {"norm-inputs"}


@pytest.mark.parametrize(
    ("names", "parsed"),
    [
        ("stream,norm-jacobians", ("stream", "norm-jacobians")),
        ("stream, norms", ("stream", "norms")),
        (("stream", "norms,stream"), ("stream", "norms")),
        (["defaults"], ("defaults",)),
        ("none", ()),
        (("none",), ()),
        ((), ()),
    ],
)
def test_strings_and_sequences(names, parsed) -> None:
    assert parse_measures(names) == parsed
    assert normdiag.Options(measure=names).measure == parsed


@pytest.mark.parametrize("names", ["weather", "stream,weather", ("weather",), "none,stream", ""])
def test_an_unknown_name_is_refused_with_those_that_exist(names) -> None:
    with pytest.raises(UsageError) as error:
        parse_measures(names)
    if "none" not in names:
        assert all(name in error.value.hint for name in (*GROUPS, *NAMES, "none"))


def test_required_measures_are_added() -> None:
    assert expand_measures(["centring-swap"]) == {"centring-swap", "norm-inputs"}
    assert expand_measures(ONE_PASS_MEASURES) == {*GROUPS["stream"], *GROUPS["norms"]}


def test_the_order_of_the_table() -> None:
    assert sort_measures({"gradients", "depth"}) == ("depth", "gradients")
