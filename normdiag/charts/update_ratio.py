"""The size of each update beside the stream that it is added to."""

from __future__ import annotations

from normdiag.charts.colours import BLUE, REFERENCE, SKY
from normdiag.charts.depth_chart import Curve, DepthChart
from normdiag.charts.measured_sites import read_adds
from normdiag.charts.specification import Spec, specify_depth_chart
from normdiag.charts.thresholds import list_levels
from normdiag.report.report import Report


def chart_update_ratio(report: Report) -> Spec:
    """Draw ||u|| / ||x|| at every add: median, mean, and 5 to 95 % of the tokens."""
    adds = read_adds(report)
    depths = {add.id: add.depth for add in report.architecture.residual_adds}
    return specify_depth_chart(
        DepthChart(
            title="Size of every update beside the stream that it joins",
            healthy="Healthy: near the grey curve 1 / sqrt(number of adds before), which equal "
            "independent writes follow. ND403 leaves the first layer out, which starts the stream.",
            x_title=adds.x_title,
            y_title="||u|| / ||x|| (log)",
            is_log=True,
            bands=adds.draw_quantiles(BLUE, "update_ratio"),
            curves=(
                Curve(
                    name="equal independent writes",
                    colour=REFERENCE,
                    places=adds.places,
                    values=[depths[at.id] ** -0.5 if depths[at.id] else None for at in adds.places],
                    is_reference=True,
                ),
                adds.draw_curve("mean over tokens", SKY, lambda at: at.update_ratio.mean),
                adds.draw_curve("median over tokens", BLUE, lambda at: at.update_ratio.median),
            ),
            levels=(
                *list_levels(report, "ND402", "update_ratio", below=True),
                *list_levels(report, "ND403", "update_ratio"),
            ),
        )
    )
