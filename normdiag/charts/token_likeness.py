"""How alike the tokens of a sequence are."""

from __future__ import annotations

from normdiag.charts.colours import BLUE
from normdiag.charts.depth_chart import DepthChart, Level
from normdiag.charts.measured_sites import read_adds
from normdiag.charts.specification import Spec, specify_depth_chart
from normdiag.charts.thresholds import list_levels
from normdiag.report.report import Report


def chart_token_likeness(report: Report) -> Spec:
    """Draw the mean cosine between tokens of one sequence behind every add."""
    adds = read_adds(report)
    return specify_depth_chart(
        DepthChart(
            title="Likeness of tokens: mean cosine between those of one sequence",
            healthy="Healthy: well below 1 at the end; at 1 all tokens are one direction, and the "
            "model no longer tells them apart.",
            x_title=adds.x_title,
            y_title="mean cosine over pairs of tokens",
            is_log=False,
            curves=(adds.draw_curve("mean over pairs", BLUE, lambda at: at.token_cosine),),
            levels=(
                Level(value=0.0, text="unrelated tokens", is_threshold=False),
                *list_levels(report, "ND405", "token_cosine"),
            ),
        )
    )
