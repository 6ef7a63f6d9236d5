"""Paths into a report: what they lead to, and what they say where they lead nowhere."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from normdiag.errors import UsageError
from normdiag.report.paths import PathValue, parse_path, worst_value
from tests.reports import bert, encoder_decoder, llama


def values(path, report):
    return {value.location: value.number for value in parse_path(path).read_values(report)}


def test_ids_are_passed_over_and_named_in_what_is_found():
    report = encoder_decoder()
    assert values("measurements.growth.total", report) == {
        "measurements.growth[encoder.block].total": 2.0,
        "measurements.growth[decoder.block].total": 2.4,
    }
    found = values("measurements.norms.eps_share.max", report)
    assert len(found) == len(report.measurements.norms)
    id = report.architecture.norms[0].id
    assert found[f"measurements.norms[{id}].eps_share.max"] == (
        report.measurements.norms[id].eps_share.max
    )


def test_an_id_in_brackets_is_one_entry():
    path = "measurements.stream[model.layers.3/add#0].out_norm.max"
    report = llama(4)
    assert values(path, report) == {
        path: report.measurements.stream["model.layers.3/add#0"].out_norm.max
    }
    path = "architecture.norms[model.norm].gain.max_abs"
    assert values(path, report) == {path: report.architecture.norms[-1].gain.max_abs}


def test_an_id_may_hold_dots_equals_signs_and_brackets():
    id = "a[0].b]=c.d"
    report = llama(2)
    growth = report.measurements.growth["model.layers"]
    report = replace(report, measurements=replace(report.measurements, growth={id: growth}))
    path = f"measurements.growth[{id}].total"
    assert values("measurements.growth.total", report) == {path: growth.total}
    assert parse_path("measurements.growth[x=y].total").steps[1].id == "x=y"


def test_lists_of_numbers_and_numbers_by_name_are_followed_to_the_end():
    found = values("measurements.norms.top_channels", llama(1))
    assert list(found.values()) == [412, 7, 96] * 3
    assert values("measurements.weights.dtypes", llama(1)) == {
        "measurements.weights.dtypes[F32]": 272
    }
    assert list(values("trace.out_norm", llama(1)).values()) == [None]


def test_what_was_not_measured_is_none():
    assert values("measurements.growth.rate", bert()) == {
        "measurements.growth[bert.encoder.layer].rate": None
    }
    assert values("measurements.gradients.global_norm", llama()) == {"measurements.gradients": None}
    empty = replace(llama(), measurements=replace(llama().measurements, growth={}))
    assert values("measurements.growth.total", empty) == {}


def test_an_id_that_is_not_there_names_the_nearest():
    (value,) = parse_path("measurements.growth[model.layer].total").read_values(llama())
    assert value == PathValue("measurements.growth[model.layer]", None, ("model.layers",))


@pytest.mark.parametrize(
    ("path", "what", "hint"),
    [
        ("measurements.grwoth.total", "measurements has no 'grwoth'", "measurements has growth"),
        ("measurement.growth.total", "the report has no 'measurement'", "measurements"),
        ("measurements.growth.model.layers.total", "has no 'model'", "goes in brackets"),
        ("measurements.growth", "is not a number", "measurements.growth.total"),
        ("measurements.growth.law", "is not a number", "measurements.growth.total"),
        ("measurements.head_input[a].rms", "head_input has no ids", "brackets"),
        ("subject.parameters.x", "has no 'x'", "has no fields"),
        ("measurements.growth[model.layers", "invalid from 'growth[model", "brackets"),
        ("growth.total", "the report has no 'growth'", "the report has measurements.growth;"),
        ("measurements..growth", "invalid from '.growth'", "dots"),
        ("", "is not a path", "dots"),
    ],
)
def test_what_leads_nowhere_is_refused_with_what_is_near(path, what, hint):
    with pytest.raises(UsageError) as caught:
        parse_path(path)
    assert what in caught.value.what
    assert hint in caught.value.hint


def test_only_what_holds_numbers_is_proposed():
    with pytest.raises(UsageError) as caught:
        parse_path("measurements.growth")
    assert "growth.total" in caught.value.hint
    assert "growth.phases" in caught.value.hint  # holds records that hold numbers
    assert "growth.law" not in caught.value.hint
    assert "growth.init_note" not in caught.value.hint


def test_every_documented_number_has_a_path():
    for path in (
        "measurements.norms.jacobian.kappa.max",
        "measurements.blocks.kappa",
        "measurements.gradients.stream",
        "measurements.gradients.groups",
        "measurements.closure.max_rel_error",
        "measurements.replay.max_rel_error",
        "subject.parameters",
        "subject.probe.tokens",
    ):
        assert parse_path(path).text == path


def test_the_worst_is_the_largest_or_the_smallest_and_nan_before_all():
    numbers = [
        PathValue("a", 1.0),
        PathValue("b", None),
        PathValue("c", math.inf),
        PathValue("d", -2.0),
    ]
    assert worst_value(tuple(numbers), "max").location == "c"
    assert worst_value(tuple(numbers), "min").location == "d"
    assert worst_value((*numbers, PathValue("e", math.nan)), "max").location == "e"
    assert worst_value((*numbers, PathValue("e", math.nan)), "min").location == "e"
    assert worst_value((PathValue("b", None),), "max") is None
    assert worst_value((), "min") is None
