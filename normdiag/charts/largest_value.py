"""The largest value of the stream beside a typical one."""

from __future__ import annotations

from normdiag.charts.colours import BLUE, ORANGE, REFERENCE
from normdiag.charts.depth_chart import Curve, DepthChart
from normdiag.charts.places import list_adds
from normdiag.charts.specification import Spec, specify_depth_chart
from normdiag.charts.thresholds import list_levels, read_limit
from normdiag.report.report import Report


def chart_largest_value(report: Report) -> Spec:
    """Draw max |y| and the median |y| behind every add."""
    places = list_adds(report)
    records = [report.measurements.stream.get(place.id) for place in places]
    ratio = read_limit(report, "ND304", "ratio")
    medians = [None if r is None else r.median_abs for r in records]
    return specify_depth_chart(
        DepthChart(
            title="Largest value of the stream beside a typical one",
            healthy=f"ND304 reports a value above its line that is also {ratio:g} times the median "
            "(grey); trained language models often have some, at their first token.",
            x_title="residual add, in the order of the forward",
            y_title="|y|, one channel of one token (log)",
            is_log=True,
            curves=(
                Curve(
                    name=f"{ratio:g} times the median",
                    colour=REFERENCE,
                    places=places,
                    values=[None if value is None else ratio * value for value in medians],
                    is_reference=True,
                ),
                Curve(
                    name="largest |y|",
                    colour=ORANGE,
                    places=places,
                    values=[None if r is None else r.max_abs for r in records],
                ),
                Curve(name="median |y|", colour=BLUE, places=places, values=medians),
            ),
            levels=list_levels(report, "ND304", "magnitude"),
        )
    )
