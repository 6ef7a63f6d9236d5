"""The chart of the rules' own ranking of what is nearest to its threshold."""

from __future__ import annotations

from dataclasses import replace

import pytest

from normdiag.charts import CHARTS, MissingDataError
from normdiag.charts.registry import CHART_OF_RULE
from normdiag.findings import NearestLimit
from normdiag.report.report import Report
from tests.charts.reports import complete
from tests.reports import weights_only

REPORT = complete()


def list_bars(report: Report) -> list[dict[str, object]]:
    bars: list[dict[str, object]] = CHARTS["nearest_limits"](report)["layer"][0]["data"]["values"]
    return bars


def make_limit(threshold: str, nearness: float, ids: tuple[str, ...] = ()) -> NearestLimit:
    return NearestLimit(
        code="ND204",
        name="gain-offset",
        quantity="share of norms",
        value=0.5 * nearness,
        limit=0.5,
        nearness=nearness,
        threshold=threshold,
        ids=ids,
    )


def test_bars_are_the_ranking_of_the_report() -> None:
    held = REPORT.rules.nearest
    assert len(held) > 3
    drawn = [
        (bar["name"], bar["nearness"], bar["value"], bar["threshold"]) for bar in list_bars(REPORT)
    ]
    assert drawn == [
        (f"{each.code} {each.quantity}", each.nearness, each.value, each.limit) for each in held
    ]
    assert {each.code for each in held} <= CHART_OF_RULE.keys()


def test_two_thresholds_of_one_unit_are_two_bars() -> None:
    limits = (make_limit("missing_share", 0.5, ("a", "b", "c")), make_limit("doubled_share", 0.1))
    bars = list_bars(replace(REPORT, rules=replace(REPORT.rules, nearest=limits)))
    assert [bar["name"] for bar in bars] == [
        "ND204 share of norms (missing_share)",
        "ND204 share of norms (doubled_share)",
    ]
    assert [bar["sites"] for bar in bars] == ["a and 2 more", ""]


def test_nothing_within_reach() -> None:
    with pytest.raises(MissingDataError, match="within reach"):
        CHARTS["nearest_limits"](weights_only())
