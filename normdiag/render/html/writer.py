"""A document as one HTML file, from the templates beside this file."""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from normdiag.number_text import format_count
from normdiag.render.escape import escape_in_full
from normdiag.render.html.document import Document
from normdiag.render.html.policy import format_policy
from normdiag.render.html.vega_bundle import read_bundle

if TYPE_CHECKING:
    from jinja2 import Environment

_FOLDER = "normdiag.render.html"


def write_document(document: Document) -> str:
    """Return the page: the same characters for the same document."""
    # A page without charts needs no library; its tables are still sorted and filtered.
    bundle = read_bundle() if document.figures else ""
    script, style = read_asset("page.js"), read_asset("page.css")
    charts = {figure.name: figure.spec for figure in document.figures}
    values = {figure.name: figure.values for figure in document.figures if figure.values}
    page = load_templates().get_template("page.html.j2")
    return page.render(
        document=document,
        policy=format_policy([part for part in (bundle, script) if part], [style]),
        bundle=bundle,
        script=script,
        style=style,
        charts=dump_json(charts),
        values=dump_json(values),
    )


def dump_json(value: Any) -> str:
    """Return strict JSON that can stand in a script element: no `<`, `>` or `&` as such."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    for char in "<>&":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text


@cache
def read_asset(name: str) -> str:
    """Return a file of this folder."""
    return resources.files(_FOLDER).joinpath(name).read_text(encoding="utf-8")


@cache
def load_templates() -> Environment:
    """Return the templates, which escape everything that is not marked as safe in them."""
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    environment = Environment(
        loader=FunctionLoader(read_asset),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["visible"] = escape_in_full
    environment.filters["kind"] = lambda value: type(value).__name__
    environment.filters["count"] = format_count
    return environment
