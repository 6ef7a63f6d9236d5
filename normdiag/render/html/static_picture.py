"""Charts as SVG, drawn without a browser: for print, and where scripts do not run."""

from __future__ import annotations

import html
import re
from typing import Any

from normdiag.charts.specification import Spec
from normdiag.render.escape import escape_in_full

_CONFIG: Spec = {
    "aria": False,
    "background": None,
    "view": {"stroke": None},
    "axis": {
        "labelColor": "currentColor",
        "titleColor": "currentColor",
        "titleFontWeight": "normal",
        "domainColor": "currentColor",
        "tickColor": "currentColor",
        "gridColor": "currentColor",
        "gridOpacity": 0.15,
        "labelFontSize": 11,
        "titleFontSize": 12,
        "titlePadding": 10,  # a reader's font may be wider than the one that was measured
    },
    "legend": {
        "labelColor": "currentColor",
        "titleColor": "currentColor",
        "labelFontSize": 12,
        "columnPadding": 28,
    },
    "text": {"fill": "currentColor", "fontSize": 11},
}
"""A page sets `color`, and so the picture is light or dark as the page is."""

_NEEDLESS = re.compile(
    r' (?:pointer-events="none"|opacity="1"|stroke-opacity="1"|aria-hidden="true"'
    r'|role="graphics-[a-z]+"|aria-roledescription="[^"]*"|font-family="sans-serif"'
    r'|class="(?:background|foreground|mark-[a-z]+ [^"]*)"|stroke-width="1"|style="[^"]*")'
)
_COORDINATES = re.compile(r' (transform|d|x|y|x2|y2|width|height)="([^"]*)"')
_LONG_NUMBER = re.compile(r"-?\d+\.\d{2,}")
_EMPTY_PATH = re.compile(r'<path d="(?:M0,0h0v0h0Z)?"(?: display="none")?/>')
_NAMED = re.compile(r'(id="|url\(#)([A-Za-z_]+\d+)')


def draw_static(name: str, spec: Spec) -> str:
    """Return the chart as an `<svg>` element; `name` keeps its ids apart from those of others."""
    import vl_convert

    title = str(spec["title"]["text"])
    plain = remove_interaction(spec)
    svg = str(vl_convert.vegalite_to_svg(plain, config=_CONFIG))
    svg = _EMPTY_PATH.sub("", _COORDINATES.sub(_shorten_numbers, _NEEDLESS.sub("", svg)))
    svg = _rename_ids(svg, name)
    label = html.escape(escape_in_full(f"{title}. {spec['title']['subtitle'][0]}"))
    return svg.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1)


def remove_interaction(value: Any) -> Any:
    """Return the specification without title, tooltips and parameters."""
    if isinstance(value, dict):
        return {
            key: item if key == "values" else remove_interaction(item)
            for key, item in value.items()
            if key not in ("tooltip", "params") and not (key == "title" and isinstance(item, dict))
        }
    if isinstance(value, list):
        return [remove_interaction(item) for item in value]
    return value


def _rename_ids(svg: str, name: str) -> str:
    """Number the ids anew: vl-convert counts on from picture to picture of one process."""
    found = dict.fromkeys(match[2] for match in _NAMED.finditer(svg))
    names = {id: f"{name}-{place}" for place, id in enumerate(found)}
    return _NAMED.sub(lambda match: match[1] + names[match[2]], svg)


def _shorten_numbers(match: re.Match[str]) -> str:
    numbers = _LONG_NUMBER.sub(lambda number: f"{float(number[0]):.1f}", match[2])
    return f' {match[1]}="{numbers}"'
