"""Every chart is a valid specification that says what it shows, with units and thresholds."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from typing import Any

import pytest

from normdiag.charts import CHARTS, MissingDataError
from normdiag.charts.colours import BLUE, THRESHOLD
from normdiag.charts.compared_streams import COMPARED
from normdiag.charts.depth_chart import Curve, DepthChart
from normdiag.charts.places import Place
from normdiag.charts.registry import CHART_OF_RULE
from normdiag.charts.specification import specify_chart, specify_depth_chart
from normdiag.charts.thresholds import read_default
from normdiag.number_text import format_setting
from normdiag.report.compare.compare import compare_reports
from normdiag.rules.registry import RULES
from tests import hostile, reports
from tests.charts.reports import complete

vl_convert = pytest.importorskip("vl_convert", reason="pip install 'normdiag[html]'")
altair = pytest.importorskip("altair", reason="pip install 'normdiag[html]'")

BELOW = {"out_ratio", "cosine"}
"""Charts whose thresholds report what is below them."""
HISTOGRAMS = {"gain_histograms"}
"""Charts of what the fabricated reports have not."""
FULL = complete(tokens=12)
NAMES = sorted(CHARTS.keys() - HISTOGRAMS)
REPORTS = {
    "complete": FULL,
    "one-layer": complete(1),
    "many-tokens": complete(2, tokens=80),
    "post-norm": reports.bert(),
    "two-stacks": reports.encoder_decoder(),
    "broken": hostile.broken(),
    "weights-only": reports.weights_only(),
}


def layers_with(spec: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [layer for layer in spec["layer"] if layer["mark"]["type"] == kind]


def list_thresholds(spec: dict[str, Any]) -> dict[float, set[str]]:
    """Value -> texts of the lines at which rules report."""
    drawn: dict[float, set[str]] = {}
    for layer in layers_with(spec, "rule"):
        for row in layer["data"]["values"]:
            if layer["mark"]["color"] == THRESHOLD:
                drawn.setdefault(row["y"], set()).add(row["text"])
    return drawn


def drawn_charts(report) -> dict[str, dict[str, Any]]:
    drawn = {}
    for name, draw in CHARTS.items():
        try:
            drawn[name] = draw(report)
        except MissingDataError as error:
            assert error.hint
    return drawn


@pytest.mark.parametrize("kind", REPORTS)
def test_what_is_drawn_compiles_and_is_strict_json(kind: str) -> None:
    drawn = drawn_charts(REPORTS[kind])
    assert bool(drawn) == (kind != "weights-only")
    for spec in drawn.values():
        json.dumps(spec, allow_nan=False)
        vl_convert.vegalite_to_vega(spec)


@pytest.mark.parametrize("name", NAMES)
def test_altair_takes_it(name: str) -> None:
    altair.LayerChart.from_dict(CHARTS[name](FULL))


def test_the_complete_report_has_all_charts() -> None:
    assert drawn_charts(FULL).keys() == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_it_says_what_it_shows_and_in_which_unit(name: str) -> None:
    spec = CHARTS[name](FULL)
    assert spec["title"]["text"] and spec["title"]["subtitle"][0]
    titles = {axis: set() for axis in ("x", "y")}
    for layer in spec["layer"]:
        for axis, found in titles.items():
            encoded = layer["encoding"].get(axis, {})
            if isinstance(encoded.get("axis"), dict):
                found.add(encoded["axis"]["title"])
    named = "x" if name in ("nearest_limits", "gradient_groups") else "y"
    assert titles[named] and all(titles[named])
    assert all(titles["x"])


@pytest.mark.parametrize(
    ("name", "code"), [(name, code) for code, name in CHART_OF_RULE.items() if name in NAMES]
)
def test_rules_exist_whose_charts_are_named(name: str, code: str) -> None:
    assert code in {rule.code for rule in RULES}


@pytest.mark.parametrize(
    ("name", "limits"),
    [
        ("update_ratio", {1e-4, 10.0}),
        ("out_ratio", {0.25}),
        ("token_likeness", {0.99}),
        ("epsilon_share", {0.1, 0.5}),
        ("largest_value", {100.0}),
        ("norm_kappa", {256.0}),
        ("block_kappa", {6e5}),
        ("attention_logits", {1e4}),
        ("gain_outliers", {20.0, 2048.0}),
        ("headroom", {65504.0}),
    ],
)
def test_the_thresholds_of_its_rules_are_drawn(name: str, limits: set[float]) -> None:
    rules = [
        row["y"]
        for layer in layers_with(CHARTS[name](replace(FULL, findings=())), "rule")
        for row in layer["data"]["values"]
        if layer["mark"]["color"] == THRESHOLD
    ]
    assert set(rules) == limits


@pytest.mark.parametrize(
    ("name", "code", "threshold", "value"),
    [
        ("update_ratio", "ND402", "update_ratio", 2e-3),
        ("update_ratio", "ND403", "update_ratio", 4.0),
        ("out_ratio", "ND404", "out_ratio", 0.4),
        ("cosine", "ND404", "cosine", -0.7),
        ("token_likeness", "ND405", "token_cosine", 0.8),
        ("largest_value", "ND304", "magnitude", 50.0),
        ("epsilon_share", "ND301", "eps_share", 0.4),
        ("norm_kappa", "ND501", "kappa", 300.0),
        ("norm_amplification", "ND502", "sigma_max", 77.0),
        ("block_kappa", "ND503", "kappa", 1e5),
        ("attention_logits", "ND504", "logit", 500.0),
        ("gain_outliers", "ND202", "ratio", 900.0),
        ("channel_share", "ND305", "share", 0.7),
        ("channel_share", "ND303", "mean_energy", 0.6),
        ("absorbed_updates", "ND703", "share", 0.3),
    ],
)
def test_a_threshold_that_the_user_set_is_drawn_in_the_place_of_the_default(
    name: str, code: str, threshold: str, value: float
) -> None:
    """Nothing has passed it: the report holds it."""
    rules = replace(FULL.rules, thresholds={code: {threshold: value}})
    drawn = list_thresholds(CHARTS[name](replace(FULL, findings=(), rules=rules)))
    default = read_default(code, threshold)
    assert {text for text in drawn[value] if text} == {
        f"{code} {side} {format_setting(value)} (set; default {format_setting(default)})"
        for side in (("below",) if name in BELOW or code == "ND402" else ("above",))
    }
    assert default not in drawn


def test_slopes_are_judged_by_what_the_user_set() -> None:
    set_limits = {"ND601": {"rate": 4.0}, "ND304": {"magnitude": 50.0, "ratio": 10.0}}
    report = replace(FULL, rules=replace(FULL.rules, thresholds=set_limits))
    texts = str(CHARTS["gradient_stream"](report)["title"])
    assert "ND601 (4 per layer" in texts
    assert "10 times the median" in str(CHARTS["largest_value"](report)["title"])


def test_stacks_stand_behind_each_other_and_are_named() -> None:
    spec = CHARTS["stream_norm"](reports.encoder_decoder())
    xs = [
        row["x"]
        for layer in layers_with(spec, "line")
        for row in layer["data"]["values"]
        if row["series"] == "mean over tokens"
    ]
    assert xs == list(range(10))
    texts = [row["text"] for layer in layers_with(spec, "text") for row in layer["data"]["values"]]
    assert {"encoder.block", "decoder.block"} <= set(texts)


def test_what_an_axis_cannot_show_is_marked_and_counted() -> None:
    spec = CHARTS["stream_norm"](hostile.broken())
    crosses = [layer for layer in layers_with(spec, "point") if layer["mark"].get("shape")]
    assert {row["value"] for layer in crosses for row in layer["data"]["values"]} == {"nan"}
    assert "Crosses: 4 of 9 values" in spec["title"]["subtitle"][0]


def test_crosses_of_what_is_too_small_stand_at_the_lower_edge() -> None:
    places = [Place(x=x, id=f"site {x}", stack="", layer=x) for x in range(4)]
    curve = Curve(name="c", colour=BLUE, places=places, values=[1.0, 0.0, math.inf, math.nan])
    chart = DepthChart(
        title="t", healthy="h.", x_title="x", y_title="y", is_log=True, curves=(curve,)
    )
    edges = {
        layer["encoding"]["y"]["value"]: [row["x"] for row in layer["data"]["values"]]
        for layer in layers_with(specify_depth_chart(chart), "point")
    }
    assert edges == {"height": [1], 0: [2, 3]}


def test_ticks_of_values_that_lie_close_together_are_told_apart() -> None:
    places = [Place(x=x, id=f"site {x}", stack="", layer=x) for x in range(2)]
    texts = []
    for values in ((1.0, 1.00000003), (1.0, 2.0)):
        curve = Curve(name="c", colour=BLUE, places=places, values=values)
        chart = DepthChart(
            title="t", healthy="h.", x_title="x", y_title="y", is_log=False, curves=(curve,)
        )
        svg = vl_convert.vegalite_to_svg(specify_depth_chart(chart))
        texts.append(re.findall(r">(1\.[0-9]+)</text>", svg))
    near, far = texts
    assert len(near) == len(set(near)) > 2
    assert "1.2" in far


def test_the_charts_of_a_comparison_are_valid() -> None:
    found = compare_reports(reports.llama(6), reports.llama(6))
    for name in ("both_streams", "stream_ratio"):
        altair.LayerChart.from_dict(COMPARED[name](found))
    changed = replace(reports.llama(6), measurements=reports.llama(6).measurements, findings=())
    assert "Exactly equal" in str(COMPARED["stream_error"](compare_reports(changed, changed)))


def test_gradients_that_are_not_finite_are_no_chart_and_no_error() -> None:
    gradients = FULL.measurements.gradients
    assert gradients is not None
    broken = replace(gradients, groups={"model.layers.0": math.nan, "lm_head": math.nan})
    report = replace(FULL, measurements=replace(FULL.measurements, gradients=broken))
    with pytest.raises(MissingDataError, match="not finite"):
        CHARTS["gradient_groups"](report)


def test_a_specification_is_json_whatever_the_numbers_are() -> None:
    layer = {"data": {"values": [{"x": 1, "y": math.inf}, {"x": 2, "y": math.nan}]}, "mark": "bar"}
    spec = specify_chart("title", "healthy", [layer])
    assert json.loads(json.dumps(spec, allow_nan=False))["layer"][0]["data"]["values"] == [
        {"x": 1, "y": None},
        {"x": 2, "y": None},
    ]
