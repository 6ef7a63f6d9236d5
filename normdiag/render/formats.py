"""Which renderer writes which view in which format."""

from __future__ import annotations

from typing import Literal

from normdiag.render import (
    comparison,
    comparison_markdown,
    csv,
    github,
    json,
    junit,
    markdown,
    sarif,
    several,
    text,
    trace,
)
from normdiag.render.interface import ComparisonRenderer, Renderer, SeriesRenderer

View = Literal["inspect", "trace"]

_OF_FINDINGS: dict[str, Renderer] = {
    "json": json.render,
    "markdown": markdown.render,
    "sarif": sarif.render,
    "junit": junit.render,
    "github": github.render,
}
"""They show what was found, whoever found it."""

FORMATS: dict[View, dict[str, Renderer]] = {
    "inspect": {
        "text": text.render_inspect,
        "csv": csv.render_inspect,
        **_OF_FINDINGS,
    },
    "trace": {
        "text": trace.render_trace,
        "csv": csv.render_trace,
        **_OF_FINDINGS,
    },
}

SERIES: dict[str, SeriesRenderer] = {
    "text": several.render_text,
    "csv": several.render_csv,
    "json": json.render_series,
    "markdown": markdown.render_series,
    "sarif": sarif.render_series,
    "junit": junit.render_series,
    "github": github.render_series,
}
"""The same formats for several targets at once."""

COMPARISONS: dict[str, ComparisonRenderer] = {
    "text": comparison.render_text,
    "json": comparison.render_json,
    "markdown": comparison_markdown.render,
}
"""Of two models beside each other."""
