"""Named values as horizontal bars, the largest on top."""

from __future__ import annotations

from collections.abc import Sequence

from normdiag.charts.colours import BLUE
from normdiag.charts.specification import Spec, specify_chart

_STEP = 18
"""Pixels per bar."""


def specify_bars(title: str, healthy: str, x_title: str, rows: Sequence[tuple[str, float]]) -> Spec:
    """Return one bar per row, in their order."""
    values = [{"name": name, "value": value} for name, value in rows]
    layer = {
        "data": {"values": values},
        "mark": {"type": "bar", "color": BLUE},
        "encoding": {
            "y": {
                "field": "name",
                "type": "nominal",
                "sort": None,
                "axis": {"title": None, "labelLimit": 260},
            },
            "x": {
                "field": "value",
                "type": "quantitative",
                "axis": {"title": x_title, "format": ".6~g"},
            },
            "tooltip": [
                {"field": "name", "title": "group"},
                {"field": "value", "title": x_title, "format": ".4~g"},
            ],
        },
    }
    return specify_chart(title, healthy, [layer], height=_STEP * len(values))
