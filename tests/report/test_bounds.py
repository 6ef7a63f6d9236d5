"""Bounds on numbers: kept, broken, or unknown, never passed over."""

from __future__ import annotations

from dataclasses import replace

import pytest

from normdiag.report.bounds import Bound, evaluate_bounds
from normdiag.report.paths import parse_path
from tests.hostile import broken
from tests.reports import bert, encoder_decoder, llama

TOTAL = "measurements.growth.total"


def check_bound(path, side, limit, report):
    (found,) = evaluate_bounds([Bound(parse_path(path), side, limit)], report)
    return found


@pytest.mark.parametrize(
    ("side", "limit", "state", "at"),
    [
        ("max", 2.4, "kept", "decoder.block"),
        ("max", 2.3, "broken", "decoder.block"),
        ("min", 2.0, "kept", "encoder.block"),
        ("min", 2.1, "broken", "encoder.block"),
    ],
)
def test_the_worst_over_ids_counts(side, limit, state, at):
    found = check_bound(TOTAL, side, limit, encoder_decoder())
    assert (found.state, found.location) == (state, f"measurements.growth[{at}].total")
    assert found.value == {"decoder.block": 2.4, "encoder.block": 2.0}[at]
    assert (found.path, found.bound, found.limit, found.unmeasured) == (TOTAL, side, limit, 0)


@pytest.mark.parametrize("side", ["max", "min"])
def test_what_is_no_number_breaks_every_bound(side):
    path = "measurements.growth.rate"
    assert check_bound(path, side, 1.0, broken()).state == "broken"
    assert check_bound(TOTAL, "max", 1e300, broken()).state == "broken"
    assert check_bound(TOTAL, "min", 1.0, broken()).state == "kept"  # infinity is above


def test_what_was_not_measured_is_unknown_and_says_so():
    found = check_bound("measurements.gradients.global_norm", "max", 1.0, llama())
    assert (found.state, found.value, found.location, found.unmeasured) == (
        "unknown",
        None,
        None,
        1,
    )
    assert found.why == "measurements.gradients is missing: it was not measured"
    nothing = replace(bert(), measurements=replace(bert().measurements, growth={}))
    assert check_bound(TOTAL, "max", 1.0, nothing).state == "unknown"
    found = check_bound("measurements.growth[model.layer].total", "max", 1.0, llama())
    assert found.why.endswith("[model.layer] is missing: similar ids: model.layers")


def test_what_was_measured_in_part_is_judged_and_the_rest_counted():
    report = broken()
    found = check_bound("measurements.norms.jacobian.sigma_max.max", "min", 0.0, report)
    absent = sum(each.jacobian is None for each in report.measurements.norms.values())
    assert absent > 0 and found.unmeasured == absent
    assert found.state == "kept"
    assert found.why.endswith(f"{absent} of {len(report.measurements.norms)} were not measured")
