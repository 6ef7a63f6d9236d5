"""The gradient of the loss along the stream and over groups of parameters."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from normdiag.charts.colours import BLUE, REFERENCE
from normdiag.charts.depth_chart import Curve, DepthChart
from normdiag.charts.missing_data import MissingDataError
from normdiag.charts.places import Place, list_adds
from normdiag.charts.ranked_bars import specify_bars
from normdiag.charts.specification import Spec, specify_depth_chart
from normdiag.charts.thresholds import read_limit
from normdiag.evidence.gradients import Gradients
from normdiag.number_text import format_number, format_percent
from normdiag.report.report import Report

_SHOWN = 14


def chart_gradient_stream(report: Report) -> Spec:
    """Draw ||dL/dy|| behind every add, with the steepest slopes that no rule reports."""
    gradients = _require_gradients(report)
    places = list_adds(report)
    values = [gradients.stream.get(place.id) for place in places]
    return specify_depth_chart(
        DepthChart(
            title="Gradient of the loss along the stream",
            healthy=f"Healthy: level or gently falling with depth. {_describe_limits(report)}",
            x_title="residual add, in the order of the forward",
            y_title="||dL/dy||, RMS over tokens (log)",
            is_log=True,
            curves=(
                *_draw_limits(report, places, values),
                Curve(
                    name="RMS over tokens",
                    colour=BLUE,
                    places=places,
                    values=values,
                ),
            ),
        )
    )


def chart_gradient_groups(report: Report) -> Spec:
    """Draw the share that each group of parameters has in the squared gradient norm."""
    gradients = _require_gradients(report)
    ranked = sorted(gradients.groups.items(), key=lambda item: -item[1])
    if not ranked:
        raise MissingDataError("no parameter has a gradient", "see the coverage of the report")
    if not all(math.isfinite(share) for _, share in ranked):
        raise MissingDataError(
            "the gradients are not finite, so there are no shares",
            "see the findings: what is not finite comes first",
        )
    others = sum(share for _, share in ranked[_SHOWN:])
    rows = [*ranked[:_SHOWN], *([(f"{len(ranked) - _SHOWN} others", others)] if others else [])]
    clipping = gradients.clipping
    clipped = (
        ""
        if clipping is None
        else f" Clipped at norm {format_number(clipping.max_norm)}, every gradient is multiplied by"
        f" {format_number(clipping.factor)}."
    )
    return specify_bars(
        "Share of every group of parameters in the gradient",
        f"Healthy: spread over the layers (equal shares: {format_percent(1 / len(ranked))}); "
        f"ND603 reports a group that fills it and is clipped.{clipped}",
        "share of the squared gradient norm",
        rows,
    )


def _require_gradients(report: Report) -> Gradients:
    if report.measurements.gradients is None:
        raise MissingDataError(
            "the report has no gradients", "inspect the model with --measure gradients"
        )
    return report.measurements.gradients


def _describe_limits(report: Report) -> str:
    falling, rising = read_limit(report, "ND601", "rate"), read_limit(report, "ND602", "rate")
    least, most = read_limit(report, "ND601", "total"), read_limit(report, "ND602", "total")
    return (
        f"Grey: slopes of ND601 ({falling:g} per layer, it vanishes towards the first layer) and "
        f"ND602 ({rising:g}, it explodes there), which report steeper ones whose total over the "
        f"layers passes {least:g} and {most:g}."
    )


def _draw_limits(
    report: Report, places: Sequence[Place], values: Sequence[float | None]
) -> Iterator[Curve]:
    """Lines through the last add of each stack, with the slopes of both thresholds."""
    rates = {
        "ND601": 1 / read_limit(report, "ND601", "rate"),
        "ND602": read_limit(report, "ND602", "rate"),
    }
    last = {
        at.stack: (at.layer, value)
        for at, value in zip(places, values, strict=True)
        if value is not None
    }
    for code, rate in rates.items():
        yield Curve(
            name=f"limit of {code}",
            colour=REFERENCE,
            places=places,
            values=[
                None
                if at.stack not in last
                else last[at.stack][1] * rate ** ((last[at.stack][0] or 0) - (at.layer or 0))
                for at in places
            ],
            is_reference=True,
        )
