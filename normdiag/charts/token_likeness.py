"""How alike the tokens of a sequence are."""

from __future__ import annotations

from normdiag.charts.colours import BLUE
from normdiag.charts.depth_chart import Curve, DepthChart, Level
from normdiag.charts.places import list_adds
from normdiag.charts.specification import Spec, specify_depth_chart
from normdiag.charts.thresholds import list_levels
from normdiag.report.report import Report


def chart_token_likeness(report: Report) -> Spec:
    """Draw the mean cosine between tokens of one sequence behind every add."""
    places = list_adds(report)
    records = [report.measurements.stream.get(place.id) for place in places]
    return specify_depth_chart(
        DepthChart(
            title="Likeness of tokens: mean cosine between those of one sequence",
            healthy="Healthy: well below 1 at the end; at 1 all tokens are one direction, and the "
            "model no longer tells them apart.",
            x_title="residual add, in the order of the forward",
            y_title="mean cosine over pairs of tokens",
            is_log=False,
            curves=(
                Curve(
                    name="mean over pairs",
                    colour=BLUE,
                    places=places,
                    values=[None if r is None else r.token_cosine for r in records],
                ),
            ),
            levels=(
                Level(value=0.0, text="unrelated tokens", is_threshold=False),
                *list_levels(report, "ND405", "token_cosine"),
            ),
        )
    )
