"""A chart of quantities over the depth of a model, as data.

Every such chart has a title that says what it shows, a unit on each axis, a sentence on what a
healthy model looks like, and the thresholds of the rules that judge it. Points are the numbers of
the report as they are; what a logarithmic axis or none at all can show is marked at its edge.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from normdiag.charts.places import Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """One quantity: a value for each place, None where it was not measured."""

    name: str
    colour: str
    places: Sequence[Place]
    values: Sequence[float | None]
    form: Literal["line", "dots", "bars"] = "line"
    is_reference: bool = False
    """Dashed and without dots: what the others are compared with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """A range for each place, None where it was not measured."""

    name: str
    colour: str
    places: Sequence[Place]
    ranges: Sequence[tuple[float, float] | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """A horizontal line: a threshold of a rule, or a value for reference."""

    value: float
    text: str
    is_threshold: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class DepthChart:
    """Curves, bands and levels over the sites of a model."""

    title: str
    healthy: str
    """What a healthy model looks like here."""
    x_title: str
    y_title: str
    is_log: bool
    curves: Sequence[Curve]
    bands: Sequence[Band] = ()
    levels: Sequence[Level] = ()
    y_domain: tuple[float, float] | None = None
    extra_layers: Sequence[dict[str, Any]] = ()
