"""Rings at the sites of a finding, on the curve that its value lies on."""

from __future__ import annotations

from dataclasses import replace

from normdiag.charts import CHARTS
from normdiag.charts.marked_sites import mark_sites
from tests.charts.reports import complete

REPORT = complete()
FINDING = REPORT.findings[0]
SITE = FINDING.ids[0]


def ring(chart: str, **given: object) -> list[dict]:
    spec = CHARTS[chart](REPORT)
    marked = mark_sites(spec, replace(FINDING, **given))
    assert marked["layer"][: len(spec["layer"])] == spec["layer"]
    return [
        row for layer in marked["layer"][len(spec["layer"]) :] for row in layer["data"]["values"]
    ]


def test_the_curve_of_its_value() -> None:
    at = REPORT.measurements.stream[SITE]
    assert [row["y"] for row in ring("largest_value", value=at.max_abs)] == [at.max_abs]
    assert [row["y"] for row in ring("largest_value", value=at.median_abs)] == [at.median_abs]
    assert [row["series"] for row in ring("largest_value", value=None)] == ["median |y|"]
    assert [row["series"] for row in ring("largest_value", value=1e7)] == ["median |y|"]


def test_sites_that_the_chart_has_not() -> None:
    assert ring("largest_value", ids=("elsewhere",)) == []
    assert ring("largest_value", ids=()) == []


def test_what_the_axis_has_no_place_for_is_ringed_at_its_cross() -> None:
    layer = CHARTS["largest_value"](REPORT)["layer"][-1]
    cross = {**layer, "mark": {"type": "point", "shape": "cross"}}
    cross["data"] = {"values": [{"x": 0, "site": SITE, "value": "inf"}]}
    at = REPORT.measurements.stream[SITE]
    for value, expected in ((at.max_abs, at.max_abs), (1e30, "inf"), (None, "inf")):
        spec = CHARTS["largest_value"](REPORT)
        spec["layer"].append({**cross, "encoding": {**layer["encoding"], "y": {}, "tooltip": []}})
        marked = mark_sites(spec, replace(FINDING, value=value))
        (row,) = marked["layer"][-1]["data"]["values"]
        assert row.get("y", row.get("value")) == expected
