"""The logits that attentions hand to their softmax."""

from __future__ import annotations

from normdiag.charts.colours import BLUE, ORANGE
from normdiag.charts.depth_chart import Curve, DepthChart
from normdiag.charts.places import Place, list_adds
from normdiag.charts.specification import Spec, specify_depth_chart
from normdiag.charts.thresholds import list_levels
from normdiag.report.report import Report


def chart_attention_logits(report: Report) -> Spec:
    """Draw the largest |logit| of every attention, and the median over heads."""
    adds = {place.id: place for place in list_adds(report)}
    held = [
        (Place(x=adds[at.add].x, id=module, stack=adds[at.add].stack, layer=at.layer), at)
        for module, at in report.measurements.attention_logits.items()
        if at.add in adds
    ]
    places = [place for place, _ in held]
    return specify_depth_chart(
        DepthChart(
            title="Attention logits: the largest that every softmax receives",
            healthy="Healthy: tens; thousands make the softmax one-hot and its gradient 0.",
            x_title="residual add of the attention, in the order of the forward",
            y_title="|q · k| × scale (log)",
            is_log=True,
            curves=(
                Curve(
                    name="largest over heads",
                    colour=ORANGE,
                    places=places,
                    values=[at.max_abs for _, at in held],
                ),
                Curve(
                    name="median over heads of the largest",
                    colour=BLUE,
                    places=places,
                    values=[at.median_max for _, at in held],
                ),
            ),
            levels=list_levels(report, "ND504", "logit"),
        )
    )
