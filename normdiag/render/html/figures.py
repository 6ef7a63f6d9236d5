"""The charts of a page: specifications, static pictures, and the findings that each shows."""

from __future__ import annotations

import base64
import math
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from normdiag.charts.marked_sites import mark_sites
from normdiag.charts.missing_data import MissingDataError
from normdiag.charts.registry import CHART_OF_RULE, CHARTS
from normdiag.charts.specification import Spec
from normdiag.charts.token_maps import (
    TokenMap,
    describe_healthy,
    list_token_maps,
    specify_token_map,
)
from normdiag.render.html.document import Figure, FigureGroup
from normdiag.render.html.static_picture import draw_static
from normdiag.render.html.visible_text import escape_strings
from normdiag.report.report import Report

Subject = TypeVar("Subject")

GROUPS: Mapping[str, tuple[str, ...]] = {
    "Nearest to a limit": ("nearest_limits",),
    "The stream": ("stream_norm", "largest_value"),
    "Updates": ("update_ratio", "cosine", "out_ratio", "contributions", "block_influence"),
    "Likeness of tokens": ("token_likeness", "effective_rank"),
    "Norms": (
        "input_variance",
        "epsilon_share",
        "channel_share",
        "norm_kappa",
        "norm_amplification",
        "gains",
        "gain_outliers",
        "gain_histograms",
    ),
    "Jacobians of layers": ("block_singular_values", "block_kappa", "attention_logits"),
    "Gradients": ("gradient_stream", "gradient_groups"),
    "Number formats": ("headroom", "norm_headroom", "absorbed_updates"),
}
"""Heading -> charts below it; heat maps of tokens have a group of their own."""

_MAPS = 9
"""Heat maps that are drawn: those of the first three sequences."""
_STEPS = 65534
"""Values of a heat map are sent as one of so many steps, 65535 for what is not finite."""


def draw_figures(
    report: Report,
) -> tuple[tuple[FigureGroup, ...], tuple[tuple[str, str], ...]]:
    """Return the groups of figures that the report has numbers for, and what is not drawn."""
    groups, undrawn = [], []
    for title, names in GROUPS.items():
        drawn, missing = draw_named({name: CHARTS[name] for name in names}, report)
        undrawn += missing
        figures = tuple(_show_findings(report, name, spec) for name, spec in drawn.items())
        groups.append(FigureGroup(id=make_id(title), title=title, figures=figures))
    maps = list_token_maps(report)
    shown = [_draw_map(name, each) for name, each in list(maps.items())[:_MAPS]]
    groups.append(FigureGroup(id="tokens", title="Tokens", figures=tuple(shown)))
    if not maps:
        undrawn.append(("tokens", "`normdiag trace` records the numbers of single tokens"))
    elif len(maps) > _MAPS:
        undrawn.append(("tokens", f"the heat maps of {len(maps) // 3 - 3} more sequences"))
    return tuple(group for group in groups if group.figures), tuple(undrawn)


def draw_named(
    charts: Mapping[str, Callable[[Subject], Spec]], subject: Subject
) -> tuple[dict[str, Spec], list[tuple[str, str]]]:
    """Return the specifications by name, and the names of charts without numbers, with why."""
    drawn: dict[str, Spec] = {}
    missing = []
    for name, draw in charts.items():
        try:
            drawn[name] = draw(subject)
        except MissingDataError as error:
            missing.append((name, error.what))
    return drawn, missing


def make_id(title: str) -> str:
    """Return the title as an id."""
    return title.lower().replace(" ", "-")


def find_figure(code: str, figures: Iterable[Figure]) -> Figure | None:
    """Return the figure that shows what a rule judges; None where it is not drawn."""
    name = CHART_OF_RULE.get(code)
    return next((figure for figure in figures if figure.name == name), None)


def _show_findings(report: Report, name: str, spec: Spec) -> Figure:
    shown = [each for each in report.findings if CHART_OF_RULE.get(each.code) == name]
    for finding in shown:
        spec = mark_sites(spec, finding)
    cards = tuple(dict.fromkeys(f"{each.code} {each.name}" for each in shown))
    return make_figure(name, spec, cards)


def make_figure(
    name: str, spec: Spec, cards: tuple[str, ...] = (), values: dict[str, Any] | None = None
) -> Figure:
    """Return a chart with its static picture."""
    shown = escape_strings(spec)
    return Figure(name=name, spec=shown, svg=draw_static(name, shown), cards=cards, values=values)


def _draw_map(name: str, shown: TokenMap) -> Figure:
    spec = specify_token_map(shown, describe_healthy(name))
    names = escape_strings({"tokens": shown.tokens, "sites": shown.sites, "unit": shown.unit})
    return make_figure(name, spec, values={**names, **pack_values(shown.rows)})


def pack_values(rows: Sequence[Sequence[float]]) -> dict[str, Any]:
    """Return the numbers as 16-bit steps of the logarithm, or of the values if one is not above 0.

    An error of at most half a step: 1e-4 of the value where it ranges over six decades.
    """
    flat = [value for row in rows for value in row]
    finite = [value for value in flat if math.isfinite(value)]
    is_log = all(value > 0 for value in finite)
    scaled = [_rescale(value, is_log=is_log) for value in flat]
    held = [value for value in scaled if math.isfinite(value)]
    low, high = min(held, default=0.0), max(held, default=0.0)
    span = high - low or 1.0
    steps = [
        round((value - low) / span * _STEPS) if math.isfinite(value) else 65535 for value in scaled
    ]
    packed = base64.b64encode(struct.pack(f"<{len(steps)}H", *steps)).decode("ascii")
    return {"low": low, "span": span, "is_log": is_log, "steps": packed}


def _rescale(value: float, *, is_log: bool) -> float:
    return math.log(value) if is_log and math.isfinite(value) else value
