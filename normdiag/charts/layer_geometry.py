"""How far each layer turns the stream, and how many directions its tokens span."""

from __future__ import annotations

from normdiag.charts.colours import BLUE, ORANGE
from normdiag.charts.depth_chart import DepthChart, Level
from normdiag.charts.measured_sites import read_layers
from normdiag.charts.specification import Spec, specify_depth_chart
from normdiag.report.report import Report


def chart_block_influence(report: Report) -> Spec:
    """Draw block influence and angular distance of every layer."""
    layers = read_layers(report)
    return specify_depth_chart(
        DepthChart(
            title="Block influence: how far every layer turns the stream",
            healthy="Healthy: the first and the last layers turn it most; 0 means that the layer "
            "changes no direction and may be removable.",
            x_title=layers.x_title,
            y_title="0 (same direction) to 1 (across)",
            is_log=False,
            curves=(
                layers.draw_curve(
                    "block influence, 1 − cos(x_in, x_out)", BLUE, lambda at: at.block_influence
                ),
                layers.draw_curve("angular distance / π", ORANGE, lambda at: at.angular_distance),
            ),
            levels=(Level(value=0.0, text="unchanged", is_threshold=False),),
        )
    )


def chart_effective_rank(report: Report) -> Spec:
    """Draw effective and stable rank of the tokens behind every layer."""
    layers = read_layers(report)
    tokens = max((r.tokens for r in layers.records if r is not None), default=0)
    levels = [Level(value=float(tokens), text=f"{tokens} tokens", is_threshold=False)]
    return specify_depth_chart(
        DepthChart(
            title="Rank of the tokens behind every layer",
            healthy="Healthy: far above 1, at most the number of tokens; 1 means that all tokens "
            "are one direction.",
            x_title=layers.x_title,
            y_title="number of directions (log)",
            is_log=True,
            curves=(
                layers.draw_curve(
                    "effective rank, exp of the entropy of s / Σs",
                    BLUE,
                    lambda at: at.effective_rank,
                ),
                layers.draw_curve(
                    "stable rank, ||X||_F² / ||X||₂²", ORANGE, lambda at: at.stable_rank
                ),
            ),
            levels=[*levels, Level(value=1.0, text="one direction", is_threshold=False)],
        )
    )
