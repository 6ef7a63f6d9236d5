"""Numbers for loggers: each against the JSON, their names against the page that lists them."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from normdiag.evidence.precision import FormatHeadroom, Precision
from normdiag.report.python.scalars import STACK_SCALARS
from normdiag.report.report import Report
from tests import reports
from tests.report.python.test_tables import full_report

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "python.md"
STACK = "model.layers"


@pytest.fixture
def report() -> Report:
    report = full_report()
    form = FormatHeadroom(
        largest=65504.0,
        headroom=80.0,
        headroom_site="x",
        square_headroom=None,
        square_headroom_site=None,
        absorbed_updates={},
    )
    precision = Precision(formats={"float16": form})
    return replace(report, measurements=replace(report.measurements, precision=precision))


def test_numbers_are_those_of_the_json(report: Report) -> None:
    seen, found = report.to_dict()["measurements"], report.scalars()
    stream, norms = list(seen["stream"].values()), list(seen["norms"].values())
    layers = [block for block in seen["blocks"].values() if block["span"] == "layer"]
    expected = {
        "growth": seen["growth"][STACK]["total"],
        "growth_rate": seen["growth"][STACK]["rate"],
        "growth_over_init": seen["growth"][STACK]["total_over_init"],
        "first_out_norm": stream[0]["out_norm"]["mean"],
        "last_out_norm": stream[-1]["out_norm"]["mean"],
        "update_ratio": np.median([each["update_ratio"]["median"] for each in stream]),
        "cosine": np.median([each["cosine"]["median"] for each in stream]),
        "max_abs": max(each["max_abs"] for each in stream),
        "token_cosine": max(each["token_cosine"] for each in stream),
        "sink_ratio": 39.0,
        "input_var": min(each["input_var"]["min"] for each in norms),
        "eps_share": max(each["eps_share"]["max"] for each in norms),
        "norm_kappa": max(each["jacobian"]["kappa"]["max"] for each in norms),
        "gain": 2.4,
        "block_kappa": np.median([each["kappa"] for each in layers]),
        "max_block_kappa": max(each["kappa"] for each in layers),
    }
    assert expected.keys() == STACK_SCALARS.keys()
    named = {f"stack/{STACK}/{name}": value for name, value in expected.items()} | {
        "findings/error": 0,
        "findings/warning": 1,
        "findings/info": 0,
        f"stack/{STACK}/gradient_ratio": 0.5,
        "gradients/loss": 2.0,
        "gradients/global_norm": 3.0,
        "precision/float16/headroom": 80.0,
    }
    assert found == pytest.approx(named)
    assert {type(value) for value in found.values()} == {float}


def test_what_was_not_measured_is_left_out() -> None:
    assert reports.weights_only().scalars() == {
        "findings/error": 0.0, "findings/warning": 0.0, "findings/info": 0.0,
    }  # fmt: skip


def test_a_nan_is_not_lost(report: Report) -> None:
    stream = dict(report.measurements.stream)
    for place in (0, len(stream) - 1):
        id = list(stream)[place]
        broken = {**stream, id: replace(stream[id], max_abs=math.nan)}
        other = replace(report, measurements=replace(report.measurements, stream=broken))
        assert math.isnan(other.scalars()[f"stack/{STACK}/max_abs"])


def test_the_page_lists_every_name(report: Report) -> None:
    listed = set(re.findall(r"^\| `([a-z0-9_/A-Z]+)` \|", PAGE.read_text("utf-8"), re.MULTILINE))
    listed = {name for name in listed if "/" in name}
    found = {
        name.replace(STACK, "STACK").replace("float16", "FORMAT") for name in report.scalars()
    } | {"gradients/clip_factor"}
    assert listed == found
