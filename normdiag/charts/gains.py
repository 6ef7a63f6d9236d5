"""The learned gains of the norms: their spread and their outliers."""

from __future__ import annotations

from normdiag.charts.colours import BLUE, GREEN, ORANGE, SKY
from normdiag.charts.depth_chart import Band, Curve, DepthChart, Level
from normdiag.charts.places import list_norms
from normdiag.charts.specification import Spec, specify_depth_chart
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
                    name="smallest",
                    colour=GREEN,
                    places=places,
                    values=[None if g is None else g.min_abs for g in gains],
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


def _read_middle(gain: Gain) -> float:
    return gain.rms if gain.median_abs is None else gain.median_abs
