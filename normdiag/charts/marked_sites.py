"""Rings around the points of a chart at which a finding is."""

from __future__ import annotations

from typing import Any

from normdiag.charts.colours import THRESHOLD
from normdiag.charts.specification import Spec
from normdiag.findings import Finding


def mark_sites(spec: Spec, finding: Finding) -> Spec:
    """Return the chart with rings at the sites of a finding.

    They stand on the curve that its value lies on at its worst site, the last one drawn in doubt.
    """
    found = [(layer, _select_rows(layer, finding)) for layer in spec["layer"]]
    found = [(layer, rows) for layer, rows in found if rows]
    if not found:
        return spec
    layer, rows = min(reversed(found), key=lambda pair: _measure_distance(pair[1], finding))
    encoding = {key: layer["encoding"][key] for key in ("x", "y", "tooltip")}
    mark = {"type": "point", "size": 120, "color": THRESHOLD, "strokeWidth": 2}
    rings = {"data": {"values": rows}, "mark": mark, "encoding": encoding}
    return {**spec, "layer": [*spec["layer"], rings]}


def _select_rows(layer: Spec, finding: Finding) -> list[dict[str, Any]]:
    sites = set(finding.ids)
    return [
        row
        for row in layer["data"]["values"]
        if row.get("site") in sites and "series" in row and "y" in row and "y2" not in row
    ]


def _measure_distance(rows: list[dict[str, Any]], finding: Finding) -> float:
    worst = [row["y"] for row in rows if row["site"] == finding.ids[0]]
    if finding.value is None or not worst:
        return float("inf")
    return float(min(abs(y - finding.value) for y in worst))
