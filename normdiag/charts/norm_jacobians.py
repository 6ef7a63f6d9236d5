"""How norms treat small changes: their condition number and their largest factor."""

from __future__ import annotations

from normdiag.charts.colours import BLUE, SKY
from normdiag.charts.depth_chart import Curve, DepthChart, Level
from normdiag.charts.measured_sites import MeasuredSites, place_norms
from normdiag.charts.specification import Spec, specify_depth_chart
from normdiag.charts.thresholds import list_levels
from normdiag.evidence.norm_inputs import NormJacobian
from normdiag.evidence.statistics import MedianMax
from normdiag.report.report import Report


def chart_norm_kappa(report: Report) -> Spec:
    """Draw the condition number of every norm's Jacobian."""
    kappas = {id: at.kappa for id, at in _read_jacobians(report).items() if at.kappa is not None}
    norms = place_norms(report, kappas)
    return specify_depth_chart(
        DepthChart(
            title="Conditioning of every norm: largest over smallest factor on small changes",
            healthy="Healthy: 1 without a gain, tens with a trained one; large values stretch some "
            "channels far more than others.",
            x_title=norms.x_title,
            y_title="kappa = σ_max / σ_min (log)",
            is_log=True,
            curves=_draw_spread(norms),
            levels=(
                Level(value=1.0, text="all directions alike", is_threshold=False),
                *list_levels(report, "ND501", "kappa"),
            ),
        )
    )


def chart_norm_amplification(report: Report) -> Spec:
    """Draw the largest factor of every norm on small changes."""
    norms = place_norms(report, {id: at.sigma_max for id, at in _read_jacobians(report).items()})
    return specify_depth_chart(
        DepthChart(
            title="Amplification by every norm: its largest factor on small changes",
            healthy="Healthy: about the gain over the size of the input; huge where the input is "
            "nearly constant.",
            x_title=norms.x_title,
            y_title="σ_max, change out / change in (log)",
            is_log=True,
            curves=_draw_spread(norms),
            levels=list_levels(report, "ND502", "sigma_max"),
        )
    )


def _read_jacobians(report: Report) -> dict[str, NormJacobian]:
    norms = report.measurements.norms
    return {id: at.jacobian for id, at in norms.items() if at.jacobian is not None}


def _draw_spread(norms: MeasuredSites[MedianMax]) -> tuple[Curve, Curve]:
    return (
        norms.draw_curve("largest over tokens", SKY, lambda at: at.max, form="dots"),
        norms.draw_curve("median over tokens", BLUE, lambda at: at.median),
    )
