"""The quantities that are closest to the thresholds of their rules."""

from __future__ import annotations

from collections import Counter

from normdiag.charts.colours import BLUE, THRESHOLD
from normdiag.charts.log_axis import choose_ticks
from normdiag.charts.missing_data import MissingDataError
from normdiag.charts.specification import Spec, specify_chart
from normdiag.findings import NearestLimit
from normdiag.number_text import format_setting, format_value
from normdiag.report.report import Report

_DOMAIN = (0.005, 4.0)
"""From below the least nearness that rules name, to room for the texts right of the limit."""
_STEP, _BAR = 34, 13
"""Pixels of a row, and of its bar: the name stands above it, at any width of the page."""


def chart_nearest_limits(report: Report) -> Spec:
    """Draw the ranking of the rules, `report.rules.nearest`, as one bar per quantity.

    Raises MissingDataError where it is empty.
    """
    if not report.rules.nearest:
        raise MissingDataError(
            "the report names no quantity within reach of its threshold",
            "reports of older versions have no such ranking: `normdiag check REPORT` judges again",
        )
    rows = _make_rows(report.rules.nearest)
    name = {"field": "name", "type": "nominal", "sort": None, "axis": None}
    x = {
        "field": "nearness",
        "type": "quantitative",
        "scale": {"type": "log", "domain": list(_DOMAIN)},
        "axis": {
            "title": "value over threshold, or threshold over value; 1: the rule reports (log)",
            "format": ".6~g",
            "values": choose_ticks(*_DOMAIN),
        },
    }
    bars = {
        "data": {"values": rows},
        "mark": {"type": "bar", "color": BLUE, "clip": True, "height": _BAR, "yOffset": 8},
        "encoding": {
            "y": name,
            "x": x,
            "x2": {"datum": _DOMAIN[0]},
            "tooltip": [
                {"field": "name", "title": "quantity"},
                {"field": "sites", "title": "sites"},
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
        "encoding": {"y": name, "x": x, "text": {"field": "text"}},
    }
    return specify_chart(
        "Nearest to a limit: quantities of the rules that passed",
        "Healthy: bars end well left of the line. What has passed its threshold is a finding, and "
        "what is further away than a factor of 100 is left out.",
        [bars, limit, names, texts],
        height=_STEP * len(rows),
    )


def _make_rows(nearest: tuple[NearestLimit, ...]) -> list[Spec]:
    named = Counter((each.code, each.quantity) for each in nearest)
    return [
        {
            "name": f"{each.code} {each.quantity}"
            + (f" ({each.threshold})" if named[each.code, each.quantity] > 1 else ""),
            "nearness": each.nearness,
            "sites": _name_sites(each.ids),
            "value": each.value,
            "threshold": each.limit,
            "text": f"{format_value(each.value)} of {each.healthy_side} "
            f"{format_setting(each.limit)}",
        }
        for each in nearest
    ]


def _name_sites(ids: tuple[str, ...]) -> str:
    more = len(ids) - 1
    return ids[0] + (f" and {more:,} more" if more else "") if ids else ""
