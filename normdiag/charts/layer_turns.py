"""How far each layer turns the stream, and how many directions its tokens span."""

from __future__ import annotations

from normdiag.charts.colours import BLUE, ORANGE
from normdiag.charts.depth_chart import Curve, DepthChart, Level
from normdiag.charts.places import list_layers
from normdiag.charts.specification import Spec, specify_depth_chart
from normdiag.report.report import Report


def chart_block_influence(report: Report) -> Spec:
    """Draw block influence and angular distance of every layer."""
    places = list_layers(report)
    records = [report.measurements.layers.get(place.id) for place in places]
    return specify_depth_chart(
        DepthChart(
            title="Block influence: how far every layer turns the stream",
            healthy="Healthy: the first and the last layers turn it most; 0 means that the layer "
            "changes no direction and may be removable.",
            x_title="layer, in the order of the forward",
            y_title="0 (same direction) to 1 (across)",
            is_log=False,
            curves=(
                Curve(
                    name="block influence, 1 − cos(x_in, x_out)",
                    colour=BLUE,
                    places=places,
                    values=[None if r is None else r.block_influence for r in records],
                ),
                Curve(
                    name="angular distance / π",
                    colour=ORANGE,
                    places=places,
                    values=[None if r is None else r.angular_distance for r in records],
                ),
            ),
            levels=(Level(value=0.0, text="unchanged", is_threshold=False),),
        )
    )


def chart_effective_rank(report: Report) -> Spec:
    """Draw effective and stable rank of the tokens behind every layer."""
    places = list_layers(report)
    records = [report.measurements.layers.get(place.id) for place in places]
    tokens = max((r.tokens for r in records if r is not None), default=0)
    levels = [Level(value=float(tokens), text=f"{tokens} tokens", is_threshold=False)]
    return specify_depth_chart(
        DepthChart(
            title="Rank of the tokens behind every layer",
            healthy="Healthy: far above 1, at most the number of tokens; 1 means that all tokens "
            "are one direction.",
            x_title="layer, in the order of the forward",
            y_title="number of directions (log)",
            is_log=True,
            curves=(
                Curve(
                    name="effective rank, exp of the entropy of s / Σs",
                    colour=BLUE,
                    places=places,
                    values=[None if r is None else r.effective_rank for r in records],
                ),
                Curve(
                    name="stable rank, ||X||_F² / ||X||₂²",
                    colour=ORANGE,
                    places=places,
                    values=[None if r is None else r.stable_rank for r in records],
                ),
            ),
            levels=[*levels, Level(value=1.0, text="one direction", is_threshold=False)],
        )
    )
