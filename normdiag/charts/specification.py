"""The Vega-Lite specification of a chart over the depth of a model."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from normdiag.charts.colours import REFERENCE, THRESHOLD, VERMILLION
from normdiag.charts.depth_chart import Band, Curve, DepthChart
from normdiag.charts.log_axis import choose_domain, choose_ticks
from normdiag.charts.missing_data import MissingDataError, replace_non_finite
from normdiag.charts.places import Place, find_starts
from normdiag.number_text import format_count

Spec = dict[str, Any]
"""A Vega-Lite specification."""

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
WIDTH = 720
HEIGHT = 260
_DIGITS = 6
"""Of the number at a tick."""
_FEW = 12
"""Up to so many sites, each has a tick."""
_MANY = 40
"""From so many points on, they are drawn without dots."""


def specify_chart(title: str, healthy: str, layers: Sequence[Spec], **given: Any) -> Spec:
    """Return the frame of a chart around its layers; JSON has no NaN and no infinity."""
    frame = {
        "$schema": SCHEMA,
        "title": {"text": title, "subtitle": [healthy], "anchor": "start"},
        "description": f"{title}. {healthy}",
        "width": WIDTH,
        "height": HEIGHT,
        **given,
        "layer": list(layers),
    }
    drawable: Spec = replace_non_finite(frame)
    return drawable


def specify_depth_chart(chart: DepthChart) -> Spec:
    """Return the specification.

    Raises MissingDataError where no curve has a value.
    """
    if not any(value is not None for curve in chart.curves for value in curve.values):
        raise MissingDataError(
            f"the report has no numbers for the chart {chart.title!r}",
            "inspect the model with the measure that it shows",
        )
    y = _encode_y(chart)
    colour = _encode_colour(chart)
    layers: list[Spec] = []
    for band in chart.bands:
        layers += _draw_band(band, y, colour, is_log=chart.is_log)
    layers += _mark_stacks(chart.curves[0].places)
    layers += _draw_levels(chart, y)
    for curve in chart.curves:
        layers += _draw_curve(curve, chart, y, colour)
    lost = _count_undrawn(chart)
    healthy = f"{chart.healthy} {lost}" if lost else chart.healthy
    return specify_chart(chart.title, healthy, [*layers, *chart.extra_layers])


def is_drawable(value: float | None, *, is_log: bool) -> bool:
    """Whether an axis has a place for the value: finite, and above 0 where it is logarithmic."""
    return value is not None and math.isfinite(value) and (value > 0 or not is_log)


def _encode_y(chart: DepthChart) -> Spec:
    axis: Spec = {
        "title": chart.y_title,
        "format": f".{_count_digits(chart)}~g",
        "labelOverlap": True,
        "tickCount": 6,
    }
    scale: Spec = {"type": "linear", "zero": False}
    if chart.is_log:
        low, high = choose_domain(_list_drawn(chart))
        scale = {"type": "log", "domain": [low, high], "nice": False}
        ticks = choose_ticks(low, high)
        if ticks is not None:
            axis["values"] = ticks
    elif chart.y_domain is not None:
        scale["domain"] = list(chart.y_domain)
    return {"field": "y", "type": "quantitative", "scale": scale, "axis": axis}


def _count_digits(chart: DepthChart) -> int:
    """Digits that tell two ticks apart: more where all values lie close together, far from 0."""
    drawn = list(_list_drawn(chart))
    span, largest = max(drawn) - min(drawn), max(map(abs, drawn))
    if not 0 < span < largest:
        return _DIGITS
    return min(15, max(_DIGITS, math.ceil(math.log10(largest / span)) + 2))


def _list_drawn(chart: DepthChart) -> Iterator[float]:
    """All values that the vertical axis must have room for; 1 where there is none."""
    values = [value for curve in chart.curves for value in curve.values]
    values += [end for band in chart.bands for ends in band.ranges if ends for end in ends]
    values += [level.value for level in chart.levels]
    drawn = [v for v in values if v is not None and is_drawable(v, is_log=chart.is_log)]
    yield from drawn or [1.0]


def _encode_x(chart: DepthChart) -> Spec:
    scale = {"nice": False, "padding": 8}
    axis: Spec = {"title": chart.x_title, "format": "d", "labelOverlap": True, "grid": False}
    last = max((place.x for curve in chart.curves for place in curve.places), default=0)
    if last < _FEW:  # where Vega would put ticks between two sites
        axis["values"] = list(range(last + 1))
    return {"field": "x", "type": "quantitative", "scale": scale, "axis": axis}


def _encode_colour(chart: DepthChart) -> Spec:
    """One legend for all curves and bands, in the order in which they are listed."""
    colours = {_name_band(band): band.colour for band in chart.bands}
    colours |= {curve.name: curve.colour for curve in chart.curves}
    return {
        "field": "series",
        "type": "nominal",
        "scale": {"domain": list(colours), "range": list(colours.values())},
        "legend": {
            "title": None,
            "orient": "top",
            "labelLimit": 400,
            "columns": 2,
            "symbolOpacity": 1,
        },
    }


def _draw_curve(curve: Curve, chart: DepthChart, y: Spec, colour: Spec) -> Iterator[Spec]:
    rows = [
        {"x": at.x, "y": value, "series": curve.name, **_describe_place(at)}
        for at, value in zip(curve.places, curve.values, strict=True)
        if is_drawable(value, is_log=chart.is_log)
    ]
    if rows:  # the range of nothing would be infinite
        yield {
            "data": {"values": rows},
            "mark": _choose_mark(curve, len(rows)),
            "encoding": {
                "x": _encode_x(chart),
                "y": y,
                "color": colour,
                "detail": {"field": "stack", "type": "nominal"},
                "tooltip": [
                    {"field": "site", "title": "site"},
                    {"field": "layer", "title": "layer"},
                    {"field": "y", "title": curve.name, "format": ".4~g"},
                ],
            },
        }
    yield from _mark_undrawn(curve, chart)


def _choose_mark(curve: Curve, points: int) -> Spec:
    if curve.form == "bars":
        return {"type": "bar", "opacity": 0.85, "width": max(2, min(14, WIDTH // (2 * points + 1)))}
    if curve.form == "dots":
        return {"type": "point", "filled": True, "size": 30, "opacity": 0.9}
    dash = {"strokeDash": [5, 4], "strokeWidth": 1.5} if curve.is_reference else {}
    dots = False if curve.is_reference or points > _MANY else {"size": 18}
    return {"type": "line", "point": dots, **dash}


def _mark_undrawn(curve: Curve, chart: DepthChart) -> Iterator[Spec]:
    """Crosses at every site whose value the axis has no place for.

    They stand at the lower edge for what is too small, at the upper one for inf and NaN.
    """
    for is_small, edge in ((False, 0), (True, "height")):
        rows = [
            {"x": at.x, "site": at.id, "value": str(value)}
            for at, value in zip(curve.places, curve.values, strict=True)
            if value is not None
            and not is_drawable(value, is_log=chart.is_log)
            and (value <= 0) == is_small
        ]
        if rows:
            yield _draw_crosses(rows, curve.name, chart, edge)


def _draw_crosses(rows: list[Spec], name: str, chart: DepthChart, edge: float | str) -> Spec:
    return {
        "data": {"values": rows},
        "mark": {
            "type": "point",
            "shape": "cross",
            "filled": True,
            "color": VERMILLION,
            "size": 70,
        },
        "encoding": {
            "x": _encode_x(chart),
            "y": {"value": edge},
            "tooltip": [
                {"field": "site", "title": "site"},
                {"field": "value", "title": f"{name}, not drawn", "type": "nominal"},
            ],
        },
    }


def _name_band(band: Band) -> str:
    """The name in the legend, which has one kind of sign for bands and lines."""
    return f"{band.name} (band)"


def _draw_band(band: Band, y: Spec, colour: Spec, *, is_log: bool) -> Iterator[Spec]:
    rows = [
        {"x": at.x, "y": ends[0], "y2": ends[1], "series": _name_band(band), **_describe_place(at)}
        for at, ends in zip(band.places, band.ranges, strict=True)
        if ends is not None and all(is_drawable(end, is_log=is_log) for end in ends)
    ]
    if rows:
        yield {
            "data": {"values": rows},
            "mark": {"type": "area", "opacity": 0.22, "line": False},
            "encoding": {
                "x": {"field": "x", "type": "quantitative"},
                "y": y,
                "y2": {"field": "y2"},
                "color": colour,
                "detail": {"field": "stack", "type": "nominal"},
            },
        }


def _draw_levels(chart: DepthChart, y: Spec) -> Iterator[Spec]:
    drawn = [each for each in chart.levels if is_drawable(each.value, is_log=chart.is_log)]
    for is_threshold in (False, True):
        rows = [
            {"y": each.value, "text": each.text}
            for each in drawn
            if each.is_threshold == is_threshold
        ]
        if rows:
            colour = THRESHOLD if is_threshold else REFERENCE
            dash = [7, 3] if is_threshold else [2, 3]
            yield {
                "data": {"values": rows},
                "mark": {"type": "rule", "color": colour, "strokeDash": dash, "strokeWidth": 1.5},
                "encoding": {"y": y},
            }
            side = ("right", "width", -2) if is_threshold else ("left", 0, 4)
            yield {
                "data": {"values": rows},
                "mark": {
                    "type": "text",
                    "align": side[0],
                    "dx": side[2],
                    "baseline": "bottom",
                    "dy": -3,
                },
                "encoding": {"x": {"value": side[1]}, "y": y, "text": {"field": "text"}},
            }


def _mark_stacks(places: Sequence[Place]) -> list[Spec]:
    """A line and a name where each stack begins, if there are several."""
    rows = [{"x": x - 0.5, "text": name} for x, name in find_starts(places)]
    if not rows:
        return []
    x = {"field": "x", "type": "quantitative"}
    return [
        {
            "data": {"values": rows},
            "mark": {"type": "rule", "color": REFERENCE},
            "encoding": {"x": x},
        },
        {
            "data": {"values": rows},
            "mark": {"type": "text", "align": "left", "baseline": "top", "dx": 4, "limit": 160},
            "encoding": {"x": x, "y": {"value": 2}, "text": {"field": "text"}},
        },
    ]


def _describe_place(place: Place) -> Spec:
    return {"site": place.id, "layer": place.layer, "stack": place.stack}


def _count_undrawn(chart: DepthChart) -> str:
    values = [value for curve in chart.curves for value in curve.values if value is not None]
    lost = sum(not is_drawable(value, is_log=chart.is_log) for value in values)
    if not lost:
        return ""
    why = "not finite or not above 0" if chart.is_log else "not finite"
    return f"Crosses: {lost} of {format_count(len(values), 'value')} {why}."
