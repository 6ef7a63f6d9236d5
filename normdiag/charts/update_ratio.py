"""The size of each update beside the stream that it is added to."""

from __future__ import annotations

from normdiag.charts.colours import BLUE, REFERENCE, SKY
from normdiag.charts.depth_chart import Curve, DepthChart
from normdiag.charts.places import list_adds
from normdiag.charts.specification import Spec, specify_depth_chart
from normdiag.charts.thresholds import list_levels
from normdiag.charts.token_quantiles import draw_quantiles
from normdiag.report.report import Report


def chart_update_ratio(report: Report) -> Spec:
    """Draw ||u|| / ||x|| at every add: median, mean, and 5 to 95 % of the tokens."""
    places = list_adds(report)
    records = [report.measurements.stream.get(place.id) for place in places]
    depths = {add.id: add.depth for add in report.architecture.residual_adds}
    return specify_depth_chart(
        DepthChart(
            title="Size of every update beside the stream that it joins",
            healthy="Healthy: near the grey curve 1 / sqrt(number of adds before), which equal "
            "independent writes follow.",
            x_title="residual add, in the order of the forward",
            y_title="||u|| / ||x|| (log)",
            is_log=True,
            bands=draw_quantiles("5 to 95 % of tokens", BLUE, places, records, "update_ratio"),
            curves=(
                Curve(
                    name="equal independent writes",
                    colour=REFERENCE,
                    places=places,
                    values=[depths[at.id] ** -0.5 if depths[at.id] else None for at in places],
                    is_reference=True,
                ),
                Curve(
                    name="mean over tokens",
                    colour=SKY,
                    places=places,
                    values=[None if r is None else r.update_ratio.mean for r in records],
                ),
                Curve(
                    name="median over tokens",
                    colour=BLUE,
                    places=places,
                    values=[None if r is None else r.update_ratio.median for r in records],
                ),
            ),
            levels=(
                *list_levels(report, "ND402", "update_ratio", below=True),
                *list_levels(report, "ND403", "update_ratio"),
            ),
        )
    )
