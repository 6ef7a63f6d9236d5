"""What norms receive: the variance beside epsilon, and the share of epsilon in it."""

from __future__ import annotations

from normdiag.charts.colours import BLUE, GREEN, ORANGE, SKY
from normdiag.charts.depth_chart import Band, Curve, DepthChart
from normdiag.charts.places import list_norms
from normdiag.charts.specification import Spec, specify_depth_chart
from normdiag.charts.thresholds import list_levels
from normdiag.charts.token_quantiles import draw_quantiles
from normdiag.report.report import Report


def chart_input_variance(report: Report) -> Spec:
    """Draw m2 of every norm's input and its epsilon."""
    places = list_norms(report)
    records = [report.measurements.norms.get(place.id) for place in places]
    epsilons = {
        norm.id: norm.eps
        for norm in report.architecture.norms
        if norm.eps_form in ("in-root", "floor-in-root")
    }
    quantiles = draw_quantiles("5 to 95 % of tokens", BLUE, places, records, "input_var")
    ranges = [None if r is None else (r.input_var.min, r.input_var.p95) for r in records]
    fallback = Band(name="smallest to 95 %", colour=BLUE, places=places, ranges=ranges)
    return specify_depth_chart(
        DepthChart(
            title="Variance that every norm receives, beside its epsilon",
            healthy="Healthy: far above epsilon at every token; where it is below, epsilon sets "
            "the scale and the norm passes size on.",
            x_title="norm, in the order of the forward",
            y_title="m2, mean (centred) square (log)",
            is_log=True,
            bands=quantiles or (fallback,),
            curves=(
                Curve(
                    name="median over tokens",
                    colour=BLUE,
                    places=places,
                    values=[None if r is None else r.input_var.median for r in records],
                ),
                Curve(
                    name="smallest",
                    colour=GREEN,
                    places=places,
                    values=[None if r is None else r.input_var.min for r in records],
                    form="dots",
                ),
                Curve(
                    name="epsilon",
                    colour=ORANGE,
                    places=places,
                    values=[epsilons.get(place.id) or None for place in places],
                ),
            ),
        )
    )


def chart_epsilon_share(report: Report) -> Spec:
    """Draw eps / (m2 + eps) of every norm."""
    places = list_norms(report)
    records = [report.measurements.norms.get(place.id) for place in places]
    return specify_depth_chart(
        DepthChart(
            title="Share of epsilon in what every norm divides by",
            healthy="Healthy: below 0.01 at the typical token; at 1 the norm divides by a "
            "constant.",
            x_title="norm, in the order of the forward",
            y_title="eps / (m2 + eps) (log)",
            is_log=True,
            bands=draw_quantiles("5 to 95 % of tokens", BLUE, places, records, "eps_share"),
            curves=(
                Curve(
                    name="largest",
                    colour=SKY,
                    places=places,
                    values=[None if r is None else r.eps_share.max or None for r in records],
                    form="dots",
                ),
                Curve(
                    name="median over tokens",
                    colour=BLUE,
                    places=places,
                    values=[None if r is None else r.eps_share.median or None for r in records],
                ),
            ),
            levels=list_levels(report, "ND301", "eps_share", "eps_share_notable"),
        )
    )


def chart_channel_share(report: Report) -> Spec:
    """Draw the share of one channel, and that of the mean, in every norm's input."""
    places = list_norms(report)
    records = [report.measurements.norms.get(place.id) for place in places]
    return specify_depth_chart(
        DepthChart(
            title="What fills the input of every norm: one channel, or the mean",
            healthy="Healthy: both far below 1; a share near 1 leaves nothing of the other "
            "channels behind the norm.",
            x_title="norm, in the order of the forward",
            y_title="share of ||x||²",
            is_log=False,
            y_domain=(0.0, 1.0),
            curves=(
                Curve(
                    name="largest channel, median over tokens",
                    colour=BLUE,
                    places=places,
                    values=[None if r is None else r.channel_share for r in records],
                ),
                Curve(
                    name="mean over features, H mean(x)² / ||x||²",
                    colour=ORANGE,
                    places=places,
                    values=[None if r is None else r.mean_energy for r in records],
                ),
            ),
            levels=(
                *list_levels(report, "ND305", "share", "dominant"),
                *list_levels(report, "ND303", "mean_energy"),
            ),
        )
    )
