"""Rings around the points of a chart at which a finding is."""

from __future__ import annotations

from typing import Any

from normdiag.charts.colours import THRESHOLD
from normdiag.charts.specification import Spec
from normdiag.findings import Finding

_NEAR = 1e-3
"""A value that is as near as this to a point, relative to itself, lies on its curve."""


_FAR = 0.5
"""A value further than this from all points of a curve is not on it."""


def mark_sites(spec: Spec, finding: Finding) -> Spec:
    """Return the chart with rings at the sites of a finding.

    They stand on the curve that its value lies on at its worst site, the last one drawn in doubt;
    around the crosses of its sites where it lies on none.
    """
    found = [(layer, _select_rows(layer, finding)) for layer in spec["layer"]]
    found = [(layer, rows) for layer, rows in found if rows]
    crosses = [(layer, _select_crosses(layer, finding)) for layer in spec["layer"]]
    crosses = [(layer, rows) for layer, rows in crosses if rows]
    chosen = min(
        reversed(found), key=lambda pair: _measure_distance(pair[1], finding), default=None
    )
    if crosses and (chosen is None or not _lies_on(chosen[1], finding)):
        return {**spec, "layer": [*spec["layer"], *(_draw_rings(*pair) for pair in crosses)]}
    if chosen is None:
        return spec
    return {**spec, "layer": [*spec["layer"], _draw_rings(*chosen)]}


def _draw_rings(layer: Spec, rows: list[dict[str, Any]]) -> Spec:
    encoding = {key: layer["encoding"][key] for key in ("x", "y", "tooltip")}
    mark = {"type": "point", "size": 120, "color": THRESHOLD, "strokeWidth": 2}
    return {"data": {"values": rows}, "mark": mark, "encoding": encoding}


def _select_rows(layer: Spec, finding: Finding) -> list[dict[str, Any]]:
    sites = set(finding.ids)
    return [
        row
        for row in layer["data"]["values"]
        if row.get("site") in sites and "series" in row and "y" in row and "y2" not in row
    ]


def _select_crosses(layer: Spec, finding: Finding) -> list[dict[str, Any]]:
    """Rows of the sites whose values the axis has no place for."""
    if layer["mark"].get("shape") != "cross":
        return []
    sites = set(finding.ids)
    return [row for row in layer["data"]["values"] if row["site"] in sites]


def _lies_on(rows: list[dict[str, Any]], finding: Finding) -> bool:
    if finding.value is None:
        return False
    return _measure_distance(rows, finding) <= _NEAR * abs(finding.value)


def _measure_distance(rows: list[dict[str, Any]], finding: Finding) -> float:
    worst = [row["y"] for row in rows if row["site"] == finding.ids[0]]
    if finding.value is None or not worst:
        return float("inf")
    nearest = min(abs(y - finding.value) for y in worst)
    # the value is no point of this curve, such as a ratio of what the curve shows
    return float("inf") if nearest > _FAR * abs(finding.value) else float(nearest)
