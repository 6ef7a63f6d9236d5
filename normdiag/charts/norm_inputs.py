"""What norms receive: the variance beside epsilon, and the share of epsilon in it."""

from __future__ import annotations

from normdiag.charts.colours import BLUE, GREEN, ORANGE, SKY
from normdiag.charts.depth_chart import DepthChart
from normdiag.charts.measured_sites import read_norms
from normdiag.charts.specification import Spec, specify_depth_chart
from normdiag.charts.thresholds import list_levels
from normdiag.report.report import Report


def chart_input_variance(report: Report) -> Spec:
    """Draw m2 of every norm's input and its epsilon."""
    norms = read_norms(report)
    epsilons = {
        norm.id: norm.eps
        for norm in report.architecture.norms
        if norm.eps and norm.eps_form in ("in-root", "floor-in-root")
    }
    quantiles = norms.draw_quantiles(BLUE, "input_var")
    fallback = norms.draw_band(
        "smallest to 95 %", BLUE, lambda at: (at.input_var.min, at.input_var.p95)
    )
    return specify_depth_chart(
        DepthChart(
            title="Variance that every norm receives, beside its epsilon",
            healthy="Healthy: far above epsilon at every token; where it is below, epsilon sets "
            "the scale and the norm passes size on.",
            x_title=norms.x_title,
            y_title="m2, mean (centred) square (log)",
            is_log=True,
            bands=quantiles or (fallback,),
            curves=(
                norms.draw_curve("median over tokens", BLUE, lambda at: at.input_var.median),
                norms.draw_curve("smallest", GREEN, lambda at: at.input_var.min, form="dots"),
                norms.draw_values("epsilon", ORANGE, epsilons),
            ),
        )
    )


def chart_epsilon_share(report: Report) -> Spec:
    """Draw eps / (m2 + eps) of every norm."""
    norms = read_norms(report)
    return specify_depth_chart(
        DepthChart(
            title="Share of epsilon in what every norm divides by",
            healthy="Healthy: below 0.01 at the typical token; at 1 the norm divides by a "
            "constant.",
            x_title=norms.x_title,
            y_title="eps / (m2 + eps) (log)",
            is_log=True,
            bands=norms.draw_quantiles(BLUE, "eps_share"),
            curves=(
                norms.draw_curve("largest", SKY, lambda at: at.eps_share.max or None, form="dots"),
                norms.draw_curve(
                    "median over tokens", BLUE, lambda at: at.eps_share.median or None
                ),
            ),
            levels=list_levels(report, "ND301", "eps_share", "eps_share_notable"),
        )
    )


def chart_channel_share(report: Report) -> Spec:
    """Draw the share of one channel, and that of the mean, in every norm's input."""
    norms = read_norms(report)
    return specify_depth_chart(
        DepthChart(
            title="What fills the input of every norm: one channel, or the mean",
            healthy="Healthy: both far below 1; a share near 1 leaves nothing of the other "
            "channels behind the norm.",
            x_title=norms.x_title,
            y_title="share of ||x||²",
            is_log=False,
            y_domain=(0.0, 1.0),
            curves=(
                norms.draw_curve(
                    "largest channel, median over tokens", BLUE, lambda at: at.channel_share
                ),
                norms.draw_curve(
                    "mean over features, H mean(x)² / ||x||²", ORANGE, lambda at: at.mean_energy
                ),
            ),
            levels=(
                *list_levels(report, "ND305", "share", "dominant"),
                *list_levels(report, "ND303", "mean_energy"),
            ),
        )
    )
