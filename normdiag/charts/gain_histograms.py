"""How the gains of every norm are distributed, as one image: a column per norm."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from normdiag.charts.missing_data import MissingDataError
from normdiag.charts.palette_image import draw_matrix
from normdiag.charts.specification import HEIGHT, WIDTH, Spec, specify_chart
from normdiag.number_text import format_percent
from normdiag.report.report import Report

ROWS = 96
"""Cells between the smallest and the largest gain of the model."""


def chart_gain_histograms(report: Report) -> Spec:
    """Draw the histograms of all norms over one common axis.

    Thousands of bins as marks would weigh a megabyte, so they are an image. Raises
    MissingDataError for reports without histograms.
    """
    held = [getattr(norm.gain, "histogram", None) for norm in report.architecture.norms]
    found = [each for each in held if each is not None]
    if not found:
        raise MissingDataError(
            "the report has no histograms of gains", "inspect the model again with this normdiag"
        )
    low, high = min(each.min for each in found), max(each.max for each in found)
    if high == low:
        low, high = low - 0.5, high + 0.5
    columns = [spread_counts(each, low, high) for each in held]
    largest = max(share for column in columns for share in column)
    # roots: a few outliers among a thousand channels are to be seen
    rows = [[math.sqrt(column[row]) for column in columns] for row in reversed(range(ROWS))]
    image = draw_matrix(rows, 0.0, math.sqrt(largest), is_log=False)
    return specify_chart(
        "Distribution of the gains of every norm",
        f"Colour: share of channels, 0 (dark) to {format_percent(largest)} (bright), on a root "
        "scale. Healthy: one narrow heap per norm that moves slowly with depth.",
        [_draw_image(image), _draw_axes(len(columns), low, high)],
    )


def spread_counts(histogram: Any, low: float, high: float) -> Sequence[float]:
    """Return the share of channels in each of ROWS equal cells from `low` to `high`.

    A bin that lies in several cells is parted by its overlap with each.
    """
    cells = [0.0] * ROWS
    if histogram is None:
        return cells
    total = sum(histogram.counts)
    width = (histogram.max - histogram.min) / len(histogram.counts)
    size = (high - low) / ROWS
    for place, count in enumerate(histogram.counts):
        start = (histogram.min + place * width - low) / size
        end = start + width / size
        first = min(int(start), ROWS - 1)
        if end - start <= 0:
            cells[first] += count / total
            continue
        for cell in range(first, min(int(end), ROWS - 1) + 1):
            overlap = min(end, cell + 1) - max(start, cell)
            cells[cell] += count / total * max(overlap, 0.0) / (end - start)
    return cells


def _draw_image(url: str) -> Spec:
    mark = {
        "type": "image",
        "width": WIDTH,
        "height": HEIGHT,
        "aspect": False,
        "align": "left",
        "baseline": "top",
        "smooth": False,
    }
    encoding = {"x": {"value": 0}, "y": {"value": 0}, "url": {"field": "url"}}
    return {"data": {"values": [{"url": url}]}, "mark": mark, "encoding": encoding}


def _draw_axes(norms: int, low: float, high: float) -> Spec:
    """An empty mark that carries both axes."""
    x = {
        "field": "x",
        "type": "quantitative",
        "scale": {"domain": [-0.5, norms - 0.5], "nice": False},
        "axis": {"title": "norm, in the order of the forward", "format": "d", "grid": False},
    }
    y = {
        "field": "y",
        "type": "quantitative",
        "scale": {"domain": [low, high], "nice": False, "zero": False},
        "axis": {"title": "γ", "format": ".6~g", "grid": False},
    }
    return {
        "data": {"values": [{"x": 0, "y": low}]},
        "mark": {"type": "point", "opacity": 0},
        "encoding": {"x": x, "y": y},
    }
