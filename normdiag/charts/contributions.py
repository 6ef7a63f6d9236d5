"""The part that each write has in the last value of the stream."""

from __future__ import annotations

from normdiag.charts.colours import BLUE, ORANGE
from normdiag.charts.depth_chart import Curve, DepthChart, Level
from normdiag.charts.places import list_adds
from normdiag.charts.specification import Spec, specify_depth_chart
from normdiag.evidence.stream import Contribution
from normdiag.number_text import format_percent
from normdiag.report.report import Report


def chart_contributions(report: Report) -> Spec:
    """Draw the signed share and the share of energy of every add."""
    places = list_adds(report)
    stream = report.measurements.stream
    parts = [stream[at.id].contribution if at.id in stream else None for at in places]
    own = [part for part in parts if part is not None]
    equal = 1 / len(own) if own else 0.0
    return specify_depth_chart(
        DepthChart(
            title="Contribution of every write to the last value of the stream",
            healthy="Healthy: spread over the depth; below 0 later writes cancel it."
            f"{_describe_start(report)}",
            x_title="residual add, in the order of the forward",
            y_title="share of the last value",
            is_log=False,
            curves=(
                Curve(
                    name="signed share, <u, x_L> / ||x_L||²",
                    colour=BLUE,
                    places=places,
                    values=[None if part is None else part.signed for part in parts],
                    form="bars",
                ),
                Curve(
                    name="share of energy, ||u||² of all writes",
                    colour=ORANGE,
                    places=places,
                    values=[None if part is None else part.energy for part in parts],
                ),
            ),
            levels=(Level(value=equal, text="equal shares", is_threshold=False),),
        )
    )


def _describe_start(report: Report) -> str:
    starts: list[Contribution] = [
        growth.initial_contribution
        for growth in report.measurements.growth.values()
        if growth.initial_contribution is not None
    ]
    shares = ", ".join(format_percent(start.signed) for start in starts)
    return f" The initial value (embeddings) has {shares}." if shares else ""
