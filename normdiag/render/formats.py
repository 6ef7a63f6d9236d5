"""Which renderer writes which view in which format."""

from __future__ import annotations

from typing import Literal

from normdiag.render import csv, json, text, trace
from normdiag.render.interface import Renderer

View = Literal["inspect", "trace"]

FORMATS: dict[View, dict[str, Renderer]] = {
    "inspect": {
        "text": text.render_inspect,
        "csv": csv.render_inspect,
        "json": json.render,
    },
    "trace": {
        "text": trace.render_trace,
        "csv": csv.render_trace,
        "json": json.render,
    },
}
