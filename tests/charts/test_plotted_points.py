"""The points of every chart are the numbers of the saved JSON, at their sites."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import pytest

from normdiag.charts import CHARTS
from normdiag.charts.compared_streams import COMPARED
from normdiag.charts.stream_norm import chart_stream_norm
from normdiag.report.compare.compare import compare_reports
from tests.charts.reports import complete
from tests.render.test_comparison import comparison

REPORT = complete(tokens=8)
DOCUMENT = json.loads(json.dumps(REPORT.to_dict()))
MEASURED = DOCUMENT["measurements"]
NORMS = {norm["id"]: norm for norm in DOCUMENT["architecture"]["norms"]}


def points(spec: dict[str, Any], series: str) -> dict[str, float]:
    return {
        row["site"]: row["y"]
        for layer in spec["layer"]
        for row in layer["data"]["values"]
        if row.get("series") == series and "y2" not in row
    }


def at(table: str, *keys: str) -> Callable[[], dict[str, float]]:
    """What the JSON holds below `keys` of every site in a table of measurements."""

    def read() -> dict[str, float]:
        found = {}
        for site, value in MEASURED[table].items():
            for key in keys:
                value = value[key]
            found[site] = value
        return found

    return read


@pytest.mark.parametrize(
    ("chart", "series", "held"),
    [
        ("stream_norm", "mean over tokens", at("stream", "out_norm", "mean")),
        ("stream_norm", "median over tokens", at("stream", "out_norm", "median")),
        ("largest_value", "largest |y|", at("stream", "max_abs")),
        ("update_ratio", "median over tokens", at("stream", "update_ratio", "median")),
        ("cosine", "median over tokens", at("stream", "cosine", "median")),
        ("out_ratio", "median over tokens", at("stream", "out_ratio", "median")),
        (
            "contributions",
            "signed share, <u, x_L> / ||x_L||²",
            at("stream", "contribution", "signed"),
        ),
        ("block_influence", "angular distance / π", at("layers", "angular_distance")),
        ("token_likeness", "mean over pairs", at("stream", "token_cosine")),
        ("input_variance", "median over tokens", at("norms", "input_var", "median")),
        ("epsilon_share", "largest", at("norms", "eps_share", "max")),
        ("norm_kappa", "median over tokens", at("norms", "jacobian", "kappa", "median")),
        ("norm_amplification", "largest over tokens", at("norms", "jacobian", "sigma_max", "max")),
        ("attention_logits", "largest over heads", at("attention_logits", "max_abs")),
    ],
)
def test_points_are_the_numbers_of_the_json(chart, series, held) -> None:
    drawn = points(CHARTS[chart](REPORT), series)
    assert drawn and drawn == held()


def test_gradients_gains_blocks_and_formats() -> None:
    gradients = points(CHARTS["gradient_stream"](REPORT), "RMS over tokens")
    assert gradients == MEASURED["gradients"]["stream"]
    gains = points(CHARTS["gains"](REPORT), "largest")
    assert gains == {id: norm["gain"]["max_abs"] for id, norm in NORMS.items()}
    blocks = points(CHARTS["block_singular_values"](REPORT), "σ_max")
    layers = {id: b["sigma_max"] for id, b in MEASURED["blocks"].items() if b["span"] == "layer"}
    assert blocks == layers
    ranges = points(CHARTS["headroom"](REPORT), "at the add (x, u, y)")
    assert ranges == {site: MEASURED["precision"]["max_abs"][site] for site in ranges}
    assert len(ranges) == len(MEASURED["stream"])


def test_the_curve_at_initialisation_is_that_of_the_json() -> None:
    name = "at initialisation, without the first token"
    drawn = points(chart_stream_norm(REPORT), name)
    assert drawn == MEASURED["growth"]["model.layers"]["init_norms"] and len(drawn) == 12


def test_first_tokens_are_parted_by_their_ratio_to_the_others() -> None:
    """Their mean f and that of the others o: f = r o, and all tokens together have the mean m."""
    site = "model.layers.4/add#1"
    first = points(chart_stream_norm(REPORT), "mean over first tokens")[site]
    held, sequences = MEASURED["stream"][site], DOCUMENT["subject"]["probe"]["sequences"]
    others = first / held["sink_ratio"]
    tokens = held["tokens"]
    mean = (sequences * first + (tokens - sequences) * others) / tokens
    assert math.isclose(mean, held["out_norm"]["mean"], rel_tol=1e-12)


def test_a_comparison_draws_both_streams_and_their_difference() -> None:
    found = comparison()
    document = found.to_dict()
    both = COMPARED["both_streams"](found)
    for series, key in (("A", "a_norm"), ("B", "b_norm")):
        held = {site["a"]: site[key] for site in document["stream"]}
        assert points(both, series) == held
        assert all(value is not None for value in held.values())
    errors = points(COMPARED["stream_error"](found), "y, behind the add")
    assert errors == {s["a"]: s["out"]["median"] for s in document["stream"] if s["out"]["median"]}
    floor = points(COMPARED["stream_error"](found), "what rounding explains")
    assert set(floor.values()) == {site["tolerance"] for site in document["stream"]}


def test_norms_of_both_are_each_ones_own() -> None:
    found = compare_reports(complete(3), complete(3))
    assert all(site.a_norm == site.b_norm for site in found.stream)
