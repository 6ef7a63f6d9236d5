"""What a page holds, as data: cards, figures and sections, whatever the page is about."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from normdiag.charts.specification import Spec
from normdiag.render.elements import Element


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """One finding or difference."""

    mark: str
    """Its severity; of a comparison also "gone"."""
    title: str
    state: str = ""
    """Such as "new"."""
    message: str
    facts: tuple[tuple[str, str], ...] = ()
    """Label and value."""
    sites: tuple[str, ...] = ()
    more_sites: int = 0
    advice: str = ""
    chart: str | None = None
    """The figure that shows it."""
    chart_title: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One chart, live and as a picture."""

    name: str
    spec: Spec
    svg: str
    cards: tuple[str, ...] = ()
    """Titles of the findings that it shows."""
    values: dict[str, Any] | None = None
    """Of a heat map: what is read out below the pointer."""

    @property
    def title(self) -> str:
        """What it shows."""
        return str(self.spec["title"]["text"])

    @property
    def healthy(self) -> str:
        """What a healthy model looks like in it."""
        return str(self.spec["title"]["subtitle"][0])


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerDrawing:
    """One kind of layer of one stack."""

    title: str
    formula: str
    layers: str
    svg: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """The architecture, as pictures that no script draws."""

    name: str
    title: str
    healthy: str
    pictures: tuple[LayerDrawing, ...]
    gaps: tuple[str, ...] = ()
    """What is not added to the stream, in words."""
    notes: tuple[str, ...] = ()
    cards: tuple[str, ...] = ()
    """Titles of the findings that it shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureGroup:
    """Figures below one heading."""

    id: str
    title: str
    figures: tuple[Figure, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A heading with text and tables below it."""

    id: str
    title: str
    detail: str
    elements: tuple[Element, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One page."""

    title: str
    outcome: str
    lead: tuple[Element, ...] = ()
    """What was analysed."""
    cards_title: str = "Findings"
    cards: tuple[Card, ...] = ()
    no_cards: str = ""
    """The sentence that stands instead of cards."""
    groups: tuple[FigureGroup, ...] = ()
    drawing: Drawing | None = None
    undrawn: tuple[tuple[str, str], ...] = ()
    """Names of charts without numbers, and why."""
    sections_title: str = "Text and tables"
    sections: tuple[Section, ...] = ()

    @property
    def figures(self) -> tuple[Figure, ...]:
        """All figures in order."""
        return tuple(figure for group in self.groups for figure in group.figures)
