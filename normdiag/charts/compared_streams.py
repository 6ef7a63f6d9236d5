"""The streams of two models: both overlaid, their ratio, and their difference at every add."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from normdiag.charts.colours import BLUE, ORANGE, REFERENCE, SKY
from normdiag.charts.depth_chart import DepthChart, Level
from normdiag.charts.measured_sites import MeasuredSites
from normdiag.charts.places import Place
from normdiag.charts.specification import Spec, specify_depth_chart
from normdiag.report.compare.comparison import Comparison, StreamDifference


def chart_both_streams(comparison: Comparison) -> Spec:
    """Draw the mean ||y|| of both models at every add that both have."""
    adds = _read_adds(comparison)
    return specify_depth_chart(
        DepthChart(
            title="Norm of both residual streams behind every add",
            healthy="Copies of one model: the curves cover each other.",
            x_title=adds.x_title,
            y_title="||y||, mean over tokens (log)",
            is_log=True,
            curves=(
                adds.draw_curve("A", BLUE, lambda at: at.a_norm),
                adds.draw_curve("B", ORANGE, lambda at: at.b_norm),
            ),
        )
    )


def chart_stream_ratio(comparison: Comparison) -> Spec:
    """Draw ||y|| of B over that of A at every add."""
    adds = _read_adds(comparison)
    return specify_depth_chart(
        DepthChart(
            title="Ratio of the streams: B over A",
            healthy="Copies of one model: 1 everywhere; one constant value is a factor.",
            x_title=adds.x_title,
            y_title="ratio of mean ||y||",
            is_log=False,
            curves=(adds.draw_curve("B / A", BLUE, _divide_norms),),
            levels=(Level(value=1.0, text="equal", is_threshold=False),),
        )
    )


def chart_stream_error(comparison: Comparison) -> Spec:
    """Draw the relative error of x, u and y at every add, with what rounding explains."""
    adds = _read_adds(comparison)
    floor = adds.draw_curve("what rounding explains", REFERENCE, lambda at: at.tolerance)
    return specify_depth_chart(
        DepthChart(
            title="Difference of the streams at every add",
            healthy="Copies of one model: below the grey floor, which is what rounding in "
            f"{comparison.dtype} explains. {_describe_equal(comparison)}",
            x_title=adds.x_title,
            y_title="relative difference, median over tokens (log)",
            is_log=True,
            curves=(
                replace(floor, is_reference=True),
                adds.draw_curve("x, before the add", SKY, lambda at: at.skip.median or None),
                adds.draw_curve("y, behind the add", BLUE, lambda at: at.out.median or None),
                adds.draw_curve("u, the update", ORANGE, lambda at: at.branch.median or None),
            ),
        )
    )


COMPARED: Mapping[str, Callable[[Comparison], Spec]] = {
    "both_streams": chart_both_streams,
    "stream_ratio": chart_stream_ratio,
    "stream_error": chart_stream_error,
}
"""The charts of a comparison by name."""


def _read_adds(comparison: Comparison) -> MeasuredSites[StreamDifference]:
    """The adds that both models have, as those of A."""
    return MeasuredSites(
        x_title="residual add, in the order of the forward of A",
        places=[
            Place(x=x, id=site.a, stack="", layer=None) for x, site in enumerate(comparison.stream)
        ],
        records=comparison.stream,
    )


def _divide_norms(site: StreamDifference) -> float | None:
    if site.a_norm is None or site.b_norm is None or site.a_norm == 0:
        return None
    return site.b_norm / site.a_norm


def _describe_equal(comparison: Comparison) -> str:
    equal = sum(site.out.median == 0 for site in comparison.stream)
    return f"Exactly equal, and not drawn: {equal} adds." if equal else ""
