"""Heat maps of one sequence: a quantity at every token (column) and site (row)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from normdiag.charts.missing_data import MissingDataError
from normdiag.charts.palette_image import draw_matrix
from normdiag.charts.places import list_adds, list_norms
from normdiag.charts.specification import WIDTH, Spec, specify_chart
from normdiag.evidence.tokens import TokenTrace
from normdiag.number_text import format_number
from normdiag.report.report import Report

_FEWEST = 20.0
"""The ratio of largest to smallest from which the colours are logarithmic."""
_LABELLED = 48
"""Sequences of at most so many tokens have their texts on the axis."""
Quantity = Literal["out_norm", "update_ratio", "input_var"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenMap:
    """The numbers of one heat map, for reading them out beside it."""

    title: str
    unit: str
    tokens: tuple[str, ...]
    sites: tuple[str, ...]
    rows: tuple[tuple[float, ...], ...]
    """One per site, of one value per token."""


_TITLES: Mapping[Quantity, tuple[str, str, str]] = {
    "out_norm": ("Norm of the stream", "||y||", "the first token alone may stand out (a sink)"),
    "update_ratio": ("Size of every update", "||u|| / ||x||", "no column is dark all the way"),
    "input_var": ("Variance that every norm receives", "m2", "no token is far below the others"),
}


def list_token_maps(report: Report) -> dict[str, TokenMap]:
    """Return the heat maps of every traced sequence by name; none where nothing was traced."""
    return {
        f"tokens_{quantity}_{trace.sequence}": _read_map(report, trace, quantity)
        for trace in report.trace or ()
        for quantity in _TITLES
        if getattr(trace, quantity)
    }


def chart_token_norm(report: Report) -> Spec:
    """Draw ||y|| of the first traced sequence."""
    return _chart_first(report, "out_norm")


def chart_token_update(report: Report) -> Spec:
    """Draw ||u|| / ||x|| of the first traced sequence."""
    return _chart_first(report, "update_ratio")


def chart_token_variance(report: Report) -> Spec:
    """Draw m2 of every norm's input of the first traced sequence."""
    return _chart_first(report, "input_var")


def specify_token_map(shown: TokenMap, healthy: str) -> Spec:
    """Return the image, its axes and the range of its colours."""
    finite = [value for row in shown.rows for value in row if math.isfinite(value)]
    positive = [value for value in finite if value > 0]
    is_log = bool(positive) and max(positive) / min(positive) > _FEWEST
    low = min(positive if is_log else finite, default=0.0)
    high = max(finite, default=0.0)
    height = max(120, min(520, 9 * len(shown.rows)))
    image = draw_matrix(shown.rows, low, high, is_log=is_log)
    kind = "log" if is_log else "linear"
    text = (
        f"Colour: {shown.unit}, {format_number(low)} (dark) to {format_number(high)} (bright), "
        f"{kind}{'; vermillion: not finite' if len(finite) < _count_cells(shown) else ''}."
    )
    layers = [
        {
            "data": {"values": [{"url": image}]},
            "mark": {
                "type": "image",
                "width": WIDTH,
                "height": height,
                "aspect": False,
                "align": "left",
                "baseline": "top",
                "smooth": False,
            },
            "encoding": {"x": {"value": 0}, "y": {"value": 0}, "url": {"field": "url"}},
        },
        _draw_axes(shown),
    ]
    return specify_chart(shown.title, f"{text} {healthy}", layers, height=height)


def describe_healthy(name: str) -> str:
    """Return what a healthy map of that name looks like."""
    quantity = name.removeprefix("tokens_").rpartition("_")[0]
    texts = {key: text for key, (_, _, text) in _TITLES.items()}
    return f"Healthy: {texts[quantity]}."  # type: ignore[index]


def _chart_first(report: Report, quantity: Quantity) -> Spec:
    for name, shown in list_token_maps(report).items():
        if name.startswith(f"tokens_{quantity}_"):
            return specify_token_map(shown, describe_healthy(name))
    raise MissingDataError(
        "the report holds no numbers of single tokens",
        "`normdiag trace` records them, in Python normdiag.trace(model)",
    )


def _read_map(report: Report, trace: TokenTrace, quantity: Quantity) -> TokenMap:
    values: Mapping[str, Sequence[float]] = getattr(trace, quantity)
    places = list_norms(report) if quantity == "input_var" else list_adds(report)
    sites = tuple(place.id for place in places if place.id in values)
    title, unit, _ = _TITLES[quantity]
    return TokenMap(
        title=f"{title}, sequence {trace.sequence}: every token at every site",
        unit=unit,
        tokens=trace.tokens,
        sites=sites,
        rows=tuple(tuple(values[site]) for site in sites),
    )


def _count_cells(shown: TokenMap) -> int:
    return sum(len(row) for row in shown.rows)


def _draw_axes(shown: TokenMap) -> Spec:
    """An empty mark that carries both axes: token texts where they have room."""
    many = len(shown.tokens)
    sites = len(shown.sites)
    labels = [f"{place} {token}" for place, token in enumerate(shown.tokens)]
    by_text = many <= _LABELLED
    x: Spec = {
        "field": "x",
        "type": "ordinal" if by_text else "quantitative",
        "scale": {"domain": labels} if by_text else {"domain": [-0.5, many - 0.5], "nice": False},
        "axis": {
            "title": "token",
            "grid": False,
            "labelAngle": -50 if by_text else 0,
            "labelLimit": 90,
        },
    }
    return {
        "data": {"values": [{"x": labels[0] if by_text else 0, "y": 0}]},
        "mark": {"type": "point", "opacity": 0},
        "encoding": {
            "x": x,
            "y": {
                "field": "y",
                "type": "quantitative",
                "scale": {"domain": [sites - 0.5, -0.5], "nice": False, "zero": False},
                "axis": {
                    "title": "site, in the order of the forward",
                    "format": "d",
                    "grid": False,
                    "tickMinStep": 1,
                },
            },
        },
    }
