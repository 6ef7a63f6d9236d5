"""How layers treat small changes: the singular values of their Jacobians."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from normdiag.charts.colours import BLUE, GREEN, ORANGE, SKY
from normdiag.charts.depth_chart import Band, Curve, DepthChart, Level
from normdiag.charts.places import Place, list_adds, list_layers
from normdiag.charts.specification import Spec, specify_depth_chart
from normdiag.charts.thresholds import list_levels
from normdiag.evidence.blocks import BlockJacobian
from normdiag.report.report import Report


def chart_block_singular_values(report: Report) -> Spec:
    """Draw the range of singular values of every layer's Jacobian."""
    places, records = _choose_span(report)
    inner = [getattr(record, "singular_values", None) for record in records]
    bands = [
        Band(
            name="σ_min to σ_max",
            colour=SKY,
            places=places,
            ranges=[_read_ends(record) for record in records],
        )
    ]
    if any(inner):
        bands.append(
            Band(
                name="5 to 95 % of all σ",
                colour=BLUE,
                places=places,
                ranges=[None if each is None else (each.p5, each.p95) for each in inner],
            )
        )
    return specify_depth_chart(
        DepthChart(
            title="Singular values of the Jacobian of every layer",
            healthy="Healthy: close around 1, so that changes pass at their own size (dynamical "
            "isometry).",
            x_title="layer, in the order of the forward",
            y_title="singular value σ (log)",
            is_log=True,
            bands=bands,
            curves=(
                Curve(
                    name="σ_max",
                    colour=ORANGE,
                    places=places,
                    values=[None if r is None else r.sigma_max for r in records],
                ),
                Curve(
                    name="σ_min (an upper bound where it is iterative)",
                    colour=BLUE,
                    places=places,
                    values=[None if r is None else r.sigma_min for r in records],
                ),
                Curve(
                    name="root mean square",
                    colour=GREEN,
                    places=places,
                    values=[_compute_rms(r) for r in records],
                ),
            ),
            levels=(Level(value=1.0, text="isometry", is_threshold=False),),
        )
    )


def chart_block_kappa(report: Report) -> Spec:
    """Draw the condition number of every layer's Jacobian."""
    places, records = _choose_span(report)
    return specify_depth_chart(
        DepthChart(
            title="Conditioning of every layer: largest over smallest factor on small changes",
            healthy="Healthy: tens to thousands; near the line a direction is erased.",
            x_title="layer, in the order of the forward",
            y_title="kappa = σ_max / σ_min (log)",
            is_log=True,
            curves=(
                Curve(
                    name="median over tokens",
                    colour=BLUE,
                    places=places,
                    values=[None if r is None else r.kappa for r in records],
                ),
            ),
            levels=(
                Level(value=1.0, text="all directions alike", is_threshold=False),
                *list_levels(report, "ND503", "kappa"),
            ),
        )
    )


def _choose_span(report: Report) -> tuple[Sequence[Place], list[BlockJacobian | None]]:
    """The blocks of whole layers, or those of single adds where layers were not measured."""
    blocks = report.measurements.blocks
    for places in (list_layers(report), list_adds(report)):
        if any(place.id in blocks for place in places):
            return places, [blocks.get(place.id) for place in places]
    return list_layers(report), [None for _ in list_layers(report)]


def _read_ends(record: Any) -> tuple[float, float] | None:
    if record is None or record.sigma_min is None:
        return None
    return record.sigma_min, record.sigma_max


def _compute_rms(record: BlockJacobian | None) -> float | None:
    if record is None or record.mean_square is None or not record.mean_square >= 0:
        return None
    return float(record.mean_square**0.5)
