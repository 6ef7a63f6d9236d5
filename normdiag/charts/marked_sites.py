"""Rings around the points of a chart at which findings are."""

from __future__ import annotations

from collections.abc import Collection

from normdiag.charts.colours import THRESHOLD
from normdiag.charts.specification import Spec


def mark_sites(spec: Spec, sites: Collection[str]) -> Spec:
    """Return the chart with rings at `sites`, on the curve that is drawn last."""
    for layer in reversed(spec["layer"]):
        rows = [
            row
            for row in layer["data"]["values"]
            if row.get("site") in sites and "y" in row and "y2" not in row
        ]
        if rows:
            encoding = {key: layer["encoding"][key] for key in ("x", "y", "tooltip")}
            mark = {"type": "point", "size": 120, "color": THRESHOLD, "strokeWidth": 2}
            rings = {"data": {"values": rows}, "mark": mark, "encoding": encoding}
            return {**spec, "layer": [*spec["layer"], rings]}
    return spec
