"""What the text report says of gradients, and that it says no more than was measured."""

from __future__ import annotations

import csv
import io
import math
from dataclasses import replace
from typing import Any

from normdiag.evidence.gradients import Clipping, Gradients, GradientTrend, Loss, NormGradient
from normdiag.render.interface import Options
from normdiag.report.report import Report
from tests.hostile import HOSTILE
from tests.reports import llama
from tests.written import render_text

STACK = "model.layers"


def flowing(layers: int = 3, **given: Any) -> Report:
    """A report whose gradient doubles per layer on its way back."""
    report = llama(layers)
    adds = [add.id for add in report.architecture.residual_adds]
    fields = {
        "loss": Loss(kind="causal-lm", value=2.5, tokens=63, note="next tokens"),
        "stream": {id: 0.5 ** (place / 2) for place, id in enumerate(adds)},
        "ratio_last_first": 0.177,
        "ratios": {STACK: 0.177},
        "trends": {STACK: GradientTrend(rate=0.5, rate_error=0.01, total=0.25)},
        "groups": {"head": 0.25, f"{STACK}.0": 0.75},
        "global_norm": 8.0,
        "clipping": Clipping(max_norm=1.0, factor=0.125, dominant_group=f"{STACK}.0"),
    }
    measured = replace(report.measurements, gradients=Gradients(**{**fields, **given}))
    return replace(report, measurements=measured)


def section_text(report: Report, **options: Any) -> str:
    """The section, its lines joined."""
    text = render_text(report, width=200, options=Options(**options))
    return text.partition("\nGradients\n")[2].partition("\n\n")[0]


def test_the_loss_the_depth_the_groups_and_the_clipping() -> None:
    text = section_text(flowing())
    assert "Loss (causal-lm): 2.50, mean over 63 target tokens." in text
    assert "Next tokens." in text
    assert f"||dL/dy|| of {STACK} by layer: ▆▃▂" in text
    assert (
        "||dL/dy|| (root mean square over tokens): 1.000 at the first add, 0.177 at the last; "
        "first / last: 5.66; " in " ".join(text.split())
    )
    assert "log-linear fit from output to input: 2.00× per layer" in " ".join(text.split())
    assert "4.00× from the last add to the first." in " ".join(text.split())
    assert "Clipping at 1: all gradients × 0.125" in text
    assert "largest share: 75%, model.layers.0" in text


def test_the_largest_group_comes_first() -> None:
    text = section_text(flowing())
    assert text.index(f"{STACK}.0  ") < text.index("head  ")


def test_a_gradient_that_shrinks_on_its_way_back() -> None:
    trend = GradientTrend(rate=1.5, rate_error=None, total=3.0)
    assert (
        "log-linear fit from output to input: 0.667× per layer, 0.333× from the last add to the "
        "first." in " ".join(section_text(flowing(trends={STACK: trend})).split())
    )


def test_a_leap_is_named_instead_of_a_factor_per_layer() -> None:
    """One step of 1000 in a flat gradient: the fit's error is of the size of its factor."""
    ids = [add.id for add in llama(3).architecture.residual_adds]
    stream = {id: 1000.0 if place < 3 else 1.0 for place, id in enumerate(ids)}
    trend = GradientTrend(rate=0.05, rate_error=0.03, total=0.001)
    text = " ".join(section_text(flowing(stream=stream, trends={STACK: trend})).split())
    assert "log-linear" not in text
    step = "no one factor per layer; largest step from output to input: 1,000× "
    assert f"{step}from {ids[3]} to {ids[2]}." in text


def test_every_add_is_shown_where_all_rows_are_wanted() -> None:
    report = flowing()
    last = report.architecture.residual_adds[-1].id
    assert last not in section_text(report).replace("\n", "") and last in section_text(
        report, all_rows=True
    )


def test_what_is_not_finite_is_marked() -> None:
    report = flowing()
    stream = dict.fromkeys(report.measurements.gradients.stream, math.nan)
    clipping = Clipping(max_norm=1.0, factor=math.nan, dominant_group=None)
    text = section_text(flowing(stream=stream, trends={}, global_norm=math.nan, clipping=clipping))
    assert "by layer: !!!" in text and "nan at the first add" in text
    assert "Clipping cannot scale it." in text


def test_nothing_that_is_not_measured_is_said() -> None:
    text = section_text(flowing(groups={}, clipping=None, global_norm=None, trends={}))
    assert "parameters of" not in text and "Clipping" not in text and "per layer" not in text
    assert "\nGradients\n" not in render_text(llama(3))


def test_below_the_clipping_norm_nothing_is_scaled() -> None:
    clipping = Clipping(max_norm=10.0, factor=1.0, dominant_group="head")
    assert "Clipping at 10: no effect." in section_text(flowing(clipping=clipping))


def test_names_from_outside_are_made_visible() -> None:
    report = flowing(
        groups={HOSTILE: 1.0}, loss=Loss(kind=HOSTILE, value=1.0, tokens=1, note=HOSTILE)
    )
    assert "\x1b" not in section_text(report)


def test_in_csv_it_is_a_column_of_adds_and_two_of_norms() -> None:
    norm = f"{STACK}.1.input_layernorm"
    report = flowing(norms={norm: NormGradient(gain=0.5, bias=None)})
    rows = {r["site"]: r for r in csv.DictReader(io.StringIO(render_text(report, format="csv")))}
    second = report.architecture.residual_adds[1].id
    assert float(rows[second]["gradient.out"]) == 0.5**0.5
    assert (rows[norm]["gradient.gain"], rows[norm]["gradient.bias"]) == ("0.5", "")
    assert rows[second]["gradient.gain"] == rows["model.norm"]["gradient.gain"] == ""


def test_clipping_is_left_out_where_the_loss_is_a_random_projection() -> None:
    loss = Loss(kind="random-projection", value=1.0, tokens=1, note="a random projection")
    assert "Clipping" in section_text(flowing())
    assert "Clipping" not in section_text(flowing(loss=loss))
