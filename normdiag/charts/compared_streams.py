"""The streams of two models: both overlaid, their ratio, and their difference at every add."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from normdiag.charts.colours import BLUE, ORANGE, REFERENCE, SKY
from normdiag.charts.depth_chart import Curve, DepthChart, Level
from normdiag.charts.places import Place
from normdiag.charts.specification import Spec, specify_depth_chart
from normdiag.report.compare.comparison import Comparison


def chart_both_streams(comparison: Comparison) -> Spec:
    """Draw the mean ||y|| of both models at every add that both have."""
    places = _list_places(comparison)
    return specify_depth_chart(
        DepthChart(
            title="Norm of both residual streams behind every add",
            healthy="Copies of one model: the curves cover each other.",
            x_title="residual add, in the order of the forward of A",
            y_title="||y||, mean over tokens (log)",
            is_log=True,
            curves=(
                Curve(
                    name="A",
                    colour=BLUE,
                    places=places,
                    values=[site.a_norm for site in comparison.stream],
                ),
                Curve(
                    name="B",
                    colour=ORANGE,
                    places=places,
                    values=[site.b_norm for site in comparison.stream],
                ),
            ),
        )
    )


def chart_stream_ratio(comparison: Comparison) -> Spec:
    """Draw ||y|| of B over that of A at every add."""
    places = _list_places(comparison)
    return specify_depth_chart(
        DepthChart(
            title="Ratio of the streams: B over A",
            healthy="Copies of one model: 1 everywhere; one constant value is a factor.",
            x_title="residual add, in the order of the forward of A",
            y_title="ratio of mean ||y||",
            is_log=False,
            curves=(
                Curve(
                    name="B / A",
                    colour=BLUE,
                    places=places,
                    values=[
                        None
                        if site.a_norm is None or site.b_norm is None or site.a_norm == 0
                        else site.b_norm / site.a_norm
                        for site in comparison.stream
                    ],
                ),
            ),
            levels=(Level(value=1.0, text="equal", is_threshold=False),),
        )
    )


def chart_stream_error(comparison: Comparison) -> Spec:
    """Draw the relative error of x, u and y at every add, with what rounding explains."""
    places = _list_places(comparison)
    parts = (("y, behind the add", BLUE, "out"), ("u, the update", ORANGE, "branch"))
    return specify_depth_chart(
        DepthChart(
            title="Difference of the streams at every add",
            healthy="Copies of one model: below the grey floor, which is what rounding in "
            f"{comparison.dtype} explains. {_describe_equal(comparison)}",
            x_title="residual add, in the order of the forward of A",
            y_title="relative difference, median over tokens (log)",
            is_log=True,
            curves=(
                Curve(
                    name="what rounding explains",
                    colour=REFERENCE,
                    places=places,
                    values=[site.tolerance for site in comparison.stream],
                    is_reference=True,
                ),
                Curve(
                    name="x, before the add",
                    colour=SKY,
                    places=places,
                    values=[site.skip.median or None for site in comparison.stream],
                ),
                *(
                    Curve(
                        name=name,
                        colour=colour,
                        places=places,
                        values=[getattr(site, part).median or None for site in comparison.stream],
                    )
                    for name, colour, part in parts
                ),
            ),
        )
    )


COMPARED: Mapping[str, Callable[[Comparison], Spec]] = {
    "both_streams": chart_both_streams,
    "stream_ratio": chart_stream_ratio,
    "stream_error": chart_stream_error,
}
"""The charts of a comparison by name."""


def _list_places(comparison: Comparison) -> list[Place]:
    return [Place(x=x, id=site.a, stack="", layer=None) for x, site in enumerate(comparison.stream)]


def _describe_equal(comparison: Comparison) -> str:
    equal = sum(site.out.median == 0 for site in comparison.stream)
    return f"Exactly equal, and not drawn: {equal} adds." if equal else ""
