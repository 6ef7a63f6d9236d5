"""How norms treat small changes: their condition number and their largest factor."""

from __future__ import annotations

from normdiag.charts.colours import BLUE, SKY
from normdiag.charts.depth_chart import Curve, DepthChart, Level
from normdiag.charts.places import list_norms
from normdiag.charts.specification import Spec, specify_depth_chart
from normdiag.charts.thresholds import list_levels
from normdiag.report.report import Report


def chart_norm_kappa(report: Report) -> Spec:
    """Draw the condition number of every norm's Jacobian."""
    places = list_norms(report)
    norms = report.measurements.norms
    held = [norms[at.id].jacobian if at.id in norms else None for at in places]
    kappas = [None if each is None else each.kappa for each in held]
    return specify_depth_chart(
        DepthChart(
            title="Conditioning of every norm: largest over smallest factor on small changes",
            healthy="Healthy: 1 without a gain, tens with a trained one; large values stretch some "
            "channels far more than others.",
            x_title="norm, in the order of the forward",
            y_title="kappa = σ_max / σ_min (log)",
            is_log=True,
            curves=(
                Curve(
                    name="largest over tokens",
                    colour=SKY,
                    places=places,
                    values=[None if kappa is None else kappa.max for kappa in kappas],
                    form="dots",
                ),
                Curve(
                    name="median over tokens",
                    colour=BLUE,
                    places=places,
                    values=[None if kappa is None else kappa.median for kappa in kappas],
                ),
            ),
            levels=(
                Level(value=1.0, text="all directions alike", is_threshold=False),
                *list_levels(report, "ND501", "kappa"),
            ),
        )
    )


def chart_norm_amplification(report: Report) -> Spec:
    """Draw the largest factor of every norm on small changes."""
    places = list_norms(report)
    norms = report.measurements.norms
    held = [norms[at.id].jacobian if at.id in norms else None for at in places]
    return specify_depth_chart(
        DepthChart(
            title="Amplification by every norm: its largest factor on small changes",
            healthy="Healthy: about the gain over the size of the input; huge where the input is "
            "nearly constant.",
            x_title="norm, in the order of the forward",
            y_title="σ_max, change out / change in (log)",
            is_log=True,
            curves=(
                Curve(
                    name="largest over tokens",
                    colour=SKY,
                    places=places,
                    values=[None if each is None else each.sigma_max.max for each in held],
                    form="dots",
                ),
                Curve(
                    name="median over tokens",
                    colour=BLUE,
                    places=places,
                    values=[None if each is None else each.sigma_max.median for each in held],
                ),
            ),
            levels=list_levels(report, "ND502", "sigma_max"),
        )
    )
