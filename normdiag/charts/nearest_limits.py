"""The quantities that are closest to the thresholds of their rules."""

from __future__ import annotations

import math

from normdiag.charts.colours import BLUE, THRESHOLD
from normdiag.charts.judged import Nearness, rank_nearness
from normdiag.charts.log_axis import choose_ticks
from normdiag.charts.missing_data import MissingDataError
from normdiag.charts.specification import Spec, specify_chart
from normdiag.number_text import format_setting, format_value
from normdiag.report.report import Report

_SHOWN = 12
_FURTHEST = 1e-3
"""Bars of quantities further from their threshold than this have no length."""
_STEP, _BAR = 34, 13
"""Pixels of a row, and of its bar: the name stands above it, at any width of the page."""


def chart_nearest_limits(report: Report) -> Spec:
    """Draw one bar per quantity: how near its worst site is to the threshold.

    Raises MissingDataError where no judged quantity was measured.
    """
    ranked = [
        each
        for each in rank_nearness(report)
        if math.isfinite(each.nearness) and math.isfinite(each.value)
    ][:_SHOWN]
    if not ranked:
        raise MissingDataError(
            "the report has no quantity that a threshold judges", "inspect the model, not its files"
        )
    rows = [_make_row(each) for each in ranked]
    top = max(2.0, *(each.nearness for each in ranked)) * 30
    name = {"field": "name", "type": "nominal", "sort": None, "axis": None}
    x = {
        "field": "nearness",
        "type": "quantitative",
        "scale": {"type": "log", "domain": [_FURTHEST, top]},
        "axis": {
            "title": "value over threshold, 1: the rule reports (log)",
            "format": ".6~g",
            "values": choose_ticks(_FURTHEST, top),
        },
    }
    bars = {
        "data": {"values": rows},
        "mark": {"type": "bar", "clip": True, "height": _BAR, "yOffset": 8},
        "encoding": {
            "y": name,
            "x": x,
            "x2": {"datum": _FURTHEST},
            "color": {
                "field": "state",
                "type": "nominal",
                "scale": {
                    "domain": ["within the threshold", "beyond it"],
                    "range": [BLUE, THRESHOLD],
                },
                "legend": {"title": None, "orient": "top"},
            },
            "tooltip": [
                {"field": "name", "title": "quantity"},
                {"field": "site", "title": "site"},
                {"field": "value", "title": "value", "format": ".4~g"},
                {"field": "threshold", "title": "threshold", "format": ".4~g"},
            ],
        },
    }
    limit = {
        "data": {"values": [{"nearness": 1.0}]},
        "mark": {"type": "rule", "color": THRESHOLD, "strokeDash": [7, 3], "strokeWidth": 1.5},
        "encoding": {"x": x},
    }
    names = {
        "data": {"values": rows},
        "mark": {"type": "text", "align": "left", "dx": 2, "dy": -7},
        "encoding": {"y": name, "x": {"value": 0}, "text": {"field": "name"}},
    }
    texts = {
        "data": {"values": rows},
        "mark": {"type": "text", "align": "left", "dx": 6, "dy": 8, "limit": 320},
        "encoding": {"y": name, "x": {**x, "field": "end"}, "text": {"field": "text"}},
    }
    return specify_chart(
        "Nearest to a limit: every judged quantity at its worst site",
        "Healthy: all bars end left of the line. A rule may ask for more than one site or one "
        "condition, so a bar beyond it is not always a finding.",
        [bars, limit, names, texts],
        height=_STEP * len(rows),
    )


def _make_row(each: Nearness) -> Spec:
    return {
        "name": f"{each.code} {each.quantity}",
        "nearness": each.nearness,
        "end": max(each.nearness, _FURTHEST),
        "state": "beyond it" if each.nearness >= 1 else "within the threshold",
        "site": each.site,
        "value": each.value,
        "threshold": each.threshold,
        "text": f"{format_value(each.value)} of {format_setting(each.threshold)}",
    }
