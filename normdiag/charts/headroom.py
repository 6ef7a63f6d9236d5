"""The largest values of a model beside the limits of number formats."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from normdiag.charts.colours import BLUE, GREEN, ORANGE
from normdiag.charts.depth_chart import DepthChart, Level
from normdiag.charts.measured_sites import read_adds, read_norms
from normdiag.charts.missing_data import MissingDataError
from normdiag.charts.specification import Spec, specify_depth_chart
from normdiag.charts.thresholds import list_levels
from normdiag.evidence.precision import Precision
from normdiag.number_text import format_number
from normdiag.report.report import Report

_WIDE = 1e30
"""Limits above this (bfloat16, float32) would flatten everything else."""
_APART = 3.0
"""Lines closer than by this factor have one text."""


def chart_headroom(report: Report) -> Spec:
    """Draw the largest |value| at every add and inside its branch, with the formats' limits."""
    precision = _require_precision(report)
    adds = read_adds(report)
    peaks = {
        kind: {
            peak.add: max(peak.value, 0.0) for peak in precision.inner_peaks if peak.kind == kind
        }
        for kind in ("product", "contraction")
    }
    limits = {name: each.largest for name, each in precision.formats.items()}
    wide = ", ".join(
        f"{name} {format_number(largest)}" for name, largest in limits.items() if largest > _WIDE
    )
    return specify_depth_chart(
        DepthChart(
            title="Headroom: the largest value at every add beside the limits of number formats",
            healthy="Healthy: below the line of the format that it runs in, by 2 or more (ND701 "
            f"reports float16).{f' Beyond the picture: {wide}.' if wide else ''}",
            x_title=adds.x_title,
            y_title="largest |value| (log)",
            is_log=True,
            curves=(
                adds.draw_values("at the add (x, u, y)", BLUE, precision.max_abs),
                adds.draw_values(
                    "contraction in its branch", GREEN, peaks["contraction"], form="dots"
                ),
                adds.draw_values("product in its branch", ORANGE, peaks["product"], form="dots"),
            ),
            levels=tuple(_list_limits(limits)),
        )
    )


def _list_limits(limits: Mapping[str, float]) -> Iterator[Level]:
    """Lines of the formats, from the widest; those that nearly coincide share a text."""
    shown = sorted((item for item in limits.items() if item[1] <= _WIDE), key=lambda item: -item[1])
    while shown:
        top = shown[0][1]
        close = [(name, value) for name, value in shown if value * _APART > top]
        shown = shown[len(close) :]
        texts = [f"{name} {format_number(value)}" for name, value in close]
        yield Level(value=top, text=", ".join(texts))
        yield from (Level(value=value, text="") for _, value in close[1:])


def chart_norm_headroom(report: Report) -> Spec:
    """Draw the largest |value| that every norm receives, with the formats' limits."""
    precision = _require_precision(report)
    norms = read_norms(report)
    return specify_depth_chart(
        DepthChart(
            title="Largest value that every norm receives, and its square",
            healthy="Healthy: a norm that squares in float16 stays below its line (ND702); fused "
            "norms square in float32.",
            x_title=norms.x_title,
            y_title="largest |value| (log)",
            is_log=True,
            curves=(
                norms.draw_values("input", BLUE, precision.max_abs),
                norms.draw_values(
                    "largest square, where the norm is written out",
                    ORANGE,
                    precision.max_square,
                    form="dots",
                ),
            ),
            levels=[
                Level(value=each.largest, text=f"{name}, largest {format_number(each.largest)}")
                for name, each in precision.formats.items()
                if name == "float16"
            ],
        )
    )


def chart_absorbed_updates(report: Report) -> Spec:
    """Draw the share of every update that rounding swallows, for each format."""
    precision = _require_precision(report)
    adds = read_adds(report)
    colours = dict(zip(("float16", "bfloat16"), (BLUE, ORANGE), strict=True))
    curves = [
        adds.draw_values(name, colour, precision.formats[name].absorbed_updates)
        for name, colour in colours.items()
        if name in precision.formats
    ]
    return specify_depth_chart(
        DepthChart(
            title="Absorbed updates: the share of every write that rounding swallows",
            healthy="Healthy: below 0.2; where most is absorbed the layer has no effect in that "
            "format.",
            x_title=adds.x_title,
            y_title="share of u with x + u = x",
            is_log=False,
            y_domain=(0.0, 1.0),
            curves=curves,
            levels=list_levels(report, "ND703", "share"),
        )
    )


def _require_precision(report: Report) -> Precision:
    if report.measurements.precision is None:
        raise MissingDataError(
            "the report has no ranges of values", "inspect the model with --measure precision"
        )
    return report.measurements.precision
