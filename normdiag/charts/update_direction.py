"""The direction of each update: along the stream, across it or against it."""

from __future__ import annotations

from normdiag.charts.colours import BLUE
from normdiag.charts.depth_chart import Curve, DepthChart, Level
from normdiag.charts.places import list_adds
from normdiag.charts.specification import Spec, specify_depth_chart
from normdiag.charts.thresholds import list_levels, read_limit
from normdiag.charts.token_quantiles import draw_quantiles
from normdiag.report.report import Report


def chart_cosine(report: Report) -> Spec:
    """Draw cos(x, u) at every add."""
    places = list_adds(report)
    records = [report.measurements.stream.get(place.id) for place in places]
    limit = read_limit(report, "ND404", "cosine")
    return specify_depth_chart(
        DepthChart(
            title="Direction of every update: cosine with the stream that it joins",
            healthy="Healthy: around 0 (new directions); above 0 it repeats the stream, below 0 it "
            f"erases. ND404 reports {limit:g} and less where ||y|| / ||x|| is small as well.",
            x_title="residual add, in the order of the forward",
            y_title="cos(x, u)",
            is_log=False,
            y_domain=(-1.0, 1.0),
            bands=draw_quantiles("5 to 95 % of tokens", BLUE, places, records, "cosine"),
            curves=(
                Curve(
                    name="median over tokens",
                    colour=BLUE,
                    places=places,
                    values=[None if r is None else r.cosine.median for r in records],
                ),
            ),
            levels=(
                Level(value=0.0, text="independent of the stream", is_threshold=False),
                *list_levels(report, "ND404", "cosine", below=True),
            ),
        )
    )


def chart_out_ratio(report: Report) -> Spec:
    """Draw ||y|| / ||x|| at every add: below 1 the update cancels the stream."""
    places = list_adds(report)
    records = [report.measurements.stream.get(place.id) for place in places]
    return specify_depth_chart(
        DepthChart(
            title="What is left of the stream behind every add",
            healthy="Healthy: 1 and above; far below 1 the update cancels the stream and takes its "
            "digits along.",
            x_title="residual add, in the order of the forward",
            y_title="||y|| / ||x|| (log)",
            is_log=True,
            curves=(
                Curve(
                    name="median over tokens",
                    colour=BLUE,
                    places=places,
                    values=[
                        None if r is None or r.out_ratio is None else r.out_ratio.median
                        for r in records
                    ],
                ),
            ),
            levels=(
                Level(value=1.0, text="unchanged in size", is_threshold=False),
                *list_levels(report, "ND404", "out_ratio", below=True),
            ),
        )
    )
