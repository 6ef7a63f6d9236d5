"""The norm of the residual stream against depth."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from normdiag.charts.colours import BLUE, GREEN, ORANGE, PURPLE, REFERENCE
from normdiag.charts.depth_chart import Curve, DepthChart
from normdiag.charts.places import Place, list_adds
from normdiag.charts.specification import Spec, specify_depth_chart
from normdiag.charts.thresholds import read_limit
from normdiag.charts.token_quantiles import draw_quantiles
from normdiag.evidence.architecture import title_stack
from normdiag.evidence.stream import AddMeasurement, Growth
from normdiag.number_text import format_factor
from normdiag.report.report import Report

_TEXT_TOP, _TEXT_STEP, _TEXTS = 196, 14, 4
"""Pixels from the top of the chart at which the texts of phases stand, and on how many lines."""


def chart_stream_norm(report: Report) -> Spec:
    """Draw ||y|| at every add: mean, median, 5 to 95 % of the tokens, and first tokens apart."""
    places = list_adds(report)
    records = [report.measurements.stream.get(place.id) for place in places]
    bands = draw_quantiles("5 to 95 % of tokens", BLUE, places, records, "out_norm")
    curves = [
        Curve(
            name="mean over tokens",
            colour=BLUE,
            places=places,
            values=[None if r is None else r.out_norm.mean for r in records],
        ),
        Curve(
            name="median over tokens",
            colour=GREEN,
            places=places,
            values=[None if r is None else r.out_norm.median for r in records],
        ),
    ]
    firsts = _read_first_tokens(report, records)
    if any(value is not None for value in firsts):
        curves.append(
            Curve(name="mean over first tokens", colour=ORANGE, places=places, values=firsts)
        )
    fresh = _read_fresh_norms(report)
    if fresh:
        curves.append(
            Curve(
                name="at initialisation, without the first token",
                colour=PURPLE,
                places=places,
                values=[fresh.get(place.id) for place in places],
                is_reference=True,
            )
        )
    curves.append(_draw_limit(report, places, curves[0].values))
    return specify_depth_chart(
        DepthChart(
            title="Norm of the residual stream behind every add",
            healthy=_describe_growth(report),
            x_title="residual add, in the order of the forward",
            y_title="||y||, L2 norm (log)",
            is_log=True,
            curves=curves,
            bands=bands,
            extra_layers=list(_mark_phases(report, places)),
        )
    )


def _read_first_tokens(
    report: Report, records: Sequence[AddMeasurement | None]
) -> list[float | None]:
    """Mean ||y|| of the first tokens, as held or from their ratio r to the mean of the others.

    Of T tokens in S sequences with mean m, the others have the mean T m / (S r + T - S).
    """
    sequences = report.subject.probe.sequences
    values: list[float | None] = []
    for record in records:
        held = getattr(record, "first_norm", None)
        if held is None and record is not None and record.sink_ratio is not None:
            others = record.tokens * record.out_norm.mean
            parts = sequences * record.sink_ratio + record.tokens - sequences
            held = record.sink_ratio * others / parts if parts > 0 else None
        values.append(held)
    return values


def _read_fresh_norms(report: Report) -> dict[str, float]:
    """Add id -> mean ||y|| with newly drawn weights; empty in older reports."""
    growths = report.measurements.growth.values()
    return {id: norm for growth in growths for id, norm in growth.init_norms.items()}


def _draw_limit(report: Report, places: Sequence[Place], norms: Sequence[float | None]) -> Curve:
    """From the first add of each stack, the slope from which on ND401 may report.

    As far as the stream itself goes: beyond it the line would set the range of the axis.
    """
    rate = read_limit(report, "ND401", "rate")
    highest = max((y for y in norms if y is not None and math.isfinite(y)), default=0.0)
    starts: dict[str | None, tuple[int, float]] = {}
    values: list[float | None] = []
    for at, norm in zip(places, norms, strict=True):
        if norm is not None and norm > 0:
            starts.setdefault(at.stack, (at.x, norm))
        x, first = starts.get(at.stack, (at.x, math.nan))
        value = first * rate ** (at.x - x)
        values.append(value if value <= highest else None)
    return Curve(
        name=f"growth by {rate:g} per add (ND401)",
        colour=REFERENCE,
        places=places,
        values=values,
        is_reference=True,
    )


def _mark_phases(report: Report, places: Sequence[Place]) -> Iterator[Spec]:
    """A line where the growth factor changes, with the factor behind it."""
    rows = []
    for stack, growth in report.measurements.growth.items():
        start = min((place.x for place in places if place.stack == stack), default=0)
        rows += [
            {
                "x": start + phase.first,
                # short phases stand close: their texts are staggered
                "level": _TEXT_TOP + _TEXT_STEP * (place % _TEXTS),
                "text": f"{format_factor(phase.factor)} per add",
            }
            for place, phase in enumerate(growth.phases)
        ]
    if rows:
        x = {"field": "x", "type": "quantitative"}
        yield {
            "data": {"values": rows},
            "mark": {"type": "rule", "color": REFERENCE, "strokeDash": [2, 3]},
            "encoding": {"x": x},
        }
        yield {
            "data": {"values": rows},
            "mark": {"type": "text", "align": "left", "baseline": "bottom", "dx": 4},
            "encoding": {
                "x": x,
                "y": {"field": "level", "type": "quantitative", "scale": None, "axis": None},
                "text": {"field": "text"},
            },
        }


def _describe_growth(report: Report) -> str:
    healthy = (
        "Healthy: a smooth rise; equal independent writes grow as the root of depth, a norm on the "
        "stream keeps it level. Grey: the slope of ND401, which reports a steeper one whose total "
        f"passes {read_limit(report, 'ND401', 'total_notable'):g}."
    )
    growths = report.measurements.growth
    totals = [
        (f"{title_stack(stack)} " if len(growths) > 1 else "")
        + f"{format_factor(growth.total)} from the first add to the last"
        + _describe_fresh_growth(report, growth)
        for stack, growth in growths.items()
    ]
    return f"{healthy} Here: {'; '.join(totals)}." if totals else healthy


def _describe_fresh_growth(report: Report, growth: Growth) -> str:
    if growth.init_total is None or report.subject.mode == "random-init":
        return ""
    return f" ({format_factor(growth.init_total)} at initialisation, dashed: weights drawn once)"
