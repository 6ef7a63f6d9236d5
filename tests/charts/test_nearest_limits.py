"""How near each judged quantity is to its threshold."""

from __future__ import annotations

from dataclasses import replace

import pytest

from normdiag.charts import CHARTS, MissingDataError
from normdiag.charts.judged import QUANTITIES, rank_nearness
from normdiag.charts.registry import CHART_OF_RULE
from normdiag.evidence.statistics import MeanMedianMax
from tests.charts.reports import complete
from tests.reports import weights_only

REPORT = complete()
ADD = "model.layers.3/add#0"


def rank(**given: object) -> dict[str, object]:
    stream = dict(REPORT.measurements.stream)
    stream[ADD] = replace(stream[ADD], **given)
    report = replace(REPORT, measurements=replace(REPORT.measurements, stream=stream))
    return {each.code: each for each in rank_nearness(report)}


def typical(value: float) -> MeanMedianMax:
    return MeanMedianMax(mean=value, median=value, max=value)


def test_the_worst_site_counts_and_1_is_the_threshold() -> None:
    near = rank(update_ratio=typical(10.0))["ND403"]
    assert (near.site, near.value, near.threshold, near.nearness) == (ADD, 10.0, 10.0, 1.0)


def test_of_a_rule_on_small_values_the_ratio_is_turned() -> None:
    assert rank(update_ratio=typical(5e-4))["ND402"].nearness == pytest.approx(0.2)


def test_of_two_conditions_the_further_one_counts() -> None:
    both = rank(out_ratio=typical(0.2), cosine=typical(-0.95))["ND404"]
    assert (both.site, both.nearness) == (ADD, pytest.approx(0.95 / 0.9))
    one = rank(out_ratio=typical(0.2), cosine=typical(-0.45))["ND404"]
    assert one.nearness == pytest.approx(0.5)


def test_it_is_sorted_and_each_has_a_chart() -> None:
    near = [each.nearness for each in rank_nearness(REPORT)]
    assert near == sorted(near, reverse=True) and len(near) == len(QUANTITIES)
    assert {each.code for each in QUANTITIES} <= CHART_OF_RULE.keys()


def test_bars_are_those_numbers() -> None:
    bars = CHARTS["nearest_limits"](REPORT)["layer"][0]["data"]["values"]
    held = {each.code: each.nearness for each in rank_nearness(REPORT)}
    assert {bar["name"][:5]: bar["nearness"] for bar in bars}.items() <= held.items()


def test_nothing_to_judge() -> None:
    with pytest.raises(MissingDataError):
        CHARTS["nearest_limits"](weights_only())
