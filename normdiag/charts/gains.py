"""The learned gains of the norms: their spread and their outliers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from normdiag.charts.colours import BLUE, ORANGE, SKY
from normdiag.charts.depth_chart import Band, Curve, DepthChart, Level
from normdiag.charts.missing_data import MissingDataError
from normdiag.charts.places import list_norms
from normdiag.charts.specification import Spec, specify_chart, specify_depth_chart
from normdiag.charts.thresholds import list_levels
from normdiag.evidence.gains import Gain
from normdiag.report.report import Report


def chart_gains(report: Report) -> Spec:
    """Draw the smallest, median and largest |gamma| of every norm."""
    places = list_norms(report)
    gains = [norm.gain for norm in report.architecture.norms]
    return specify_depth_chart(
        DepthChart(
            title="Gains of every norm: smallest, median and largest |γ|",
            healthy="Healthy: medians of one size along the depth, and few channels far from them; "
            "1 everywhere is untrained or merged.",
            x_title="norm, in the order of the forward",
            y_title="|γ| (log)",
            is_log=True,
            bands=(
                Band(
                    name="smallest to largest",
                    colour=SKY,
                    places=places,
                    ranges=[None if g is None else (g.min_abs, g.max_abs) for g in gains],
                ),
            ),
            curves=(
                Curve(
                    name="largest",
                    colour=ORANGE,
                    places=places,
                    values=[None if g is None else g.max_abs for g in gains],
                    form="dots",
                ),
                Curve(
                    name="median",
                    colour=BLUE,
                    places=places,
                    values=[None if g is None else _read_middle(g) for g in gains],
                ),
            ),
            levels=(Level(value=1.0, text="as initialised", is_threshold=False),),
        )
    )


def chart_gain_outliers(report: Report) -> Spec:
    """Draw max |gamma| / median |gamma| of every norm."""
    gains = [norm.gain for norm in report.architecture.norms]
    return specify_depth_chart(
        DepthChart(
            title="Outliers among the gains: the largest beside the median of its norm",
            healthy="Healthy: below 20; one gain far above the others makes its channel fill the "
            "output of the norm.",
            x_title="norm, in the order of the forward",
            y_title="max |γ| / median |γ| (log)",
            is_log=True,
            curves=(
                Curve(
                    name="largest over median",
                    colour=BLUE,
                    places=list_norms(report),
                    values=[
                        g.max_abs / g.median_abs if g is not None and g.median_abs else None
                        for g in gains
                    ],
                ),
            ),
            levels=list_levels(report, "ND202", "ratio_notable", "ratio"),
        )
    )


def chart_gain_histograms(report: Report) -> Spec:
    """Draw how the gains of every norm are distributed, one column of cells per norm.

    Raises MissingDataError for reports without histograms.
    """
    rows = list(_list_cells(report))
    if not rows:
        raise MissingDataError(
            "the report has no histograms of gains", "inspect the model again with this normdiag"
        )
    mark = {"type": "rect", "tooltip": True}
    encoding = {
        "x": {
            "field": "x",
            "type": "quantitative",
            "scale": {"nice": False, "zero": False},
            "axis": {"title": "norm, in the order of the forward", "format": "d", "grid": False},
        },
        "x2": {"field": "x2"},
        "y": {
            "field": "y",
            "type": "quantitative",
            "scale": {"zero": False},
            "axis": {"title": "γ", "format": ".6~g"},
        },
        "y2": {"field": "y2"},
        "color": {
            "field": "share",
            "type": "quantitative",
            "scale": {"scheme": "viridis", "type": "sqrt"},
            "legend": {"title": "share of channels", "orient": "top", "format": ".2~g"},
        },
        "tooltip": [
            {"field": "site", "title": "norm"},
            {"field": "y", "title": "γ from", "format": ".4~g"},
            {"field": "y2", "title": "to", "format": ".4~g"},
            {"field": "share", "title": "share of channels", "format": ".6~g"},
        ],
    }
    return specify_chart(
        "Distribution of the gains of every norm",
        "Healthy: one narrow heap per norm that moves slowly with depth.",
        [{"data": {"values": rows}, "mark": mark, "encoding": encoding}],
    )


def _read_middle(gain: Gain) -> float:
    return gain.rms if gain.median_abs is None else gain.median_abs


def _list_cells(report: Report) -> Iterator[dict[str, Any]]:
    """Bins that hold gains; the edges of a norm whose gains are equal are drawn apart."""
    for place, norm in zip(list_norms(report), report.architecture.norms, strict=True):
        held = getattr(norm.gain, "histogram", None)
        if held is None:
            continue
        span = held.max - held.min or max(abs(held.max), 1.0) * 0.01
        total = sum(held.counts)
        for bin, count in enumerate(held.counts):
            if count:
                yield {
                    "x": place.x - 0.5,
                    "x2": place.x + 0.5,
                    "y": held.min + bin * span / len(held.counts),
                    "y2": held.min + (bin + 1) * span / len(held.counts),
                    "share": count / total,
                    "site": place.id,
                }
