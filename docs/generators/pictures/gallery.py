"""The gallery of faults: each rule's plot of its firing sample model and of the healthy twin.

The charts are those of the page of a report, drawn by the same code, narrow enough for two to
stand side by side, dark on white, since GitHub's scheme is not always that of the browser.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from docs.generators.pictures.captions import SIDES, Caption, path_of
from normdiag.charts.colours import THRESHOLD
from normdiag.charts.marked_sites import mark_sites
from normdiag.charts.registry import CHART_OF_RULE, CHARTS
from normdiag.charts.specification import Spec
from normdiag.findings import Finding
from normdiag.number_text import format_setting, format_value
from normdiag.render.html.static_picture import draw_static
from normdiag.rules.registry import RULES
from normdiag.rules.rule import Rule
from tests.rules.sample_reports import ROOT, inspect_target

_WIDTH, _HEIGHT, _PADDING = 320, 220, 10
_FACE = 'color="#1b1f24" font-family="Liberation Sans, Arial, Helvetica, sans-serif"'


def draw_gallery() -> dict[Path, str]:
    """Draw all pictures: path below the root of the repository -> SVG."""
    return {
        path_of(rule, side): draw_side(rule, side)
        for rule in RULES
        if rule.code in CHART_OF_RULE
        for side in SIDES
    }


def draw_side(rule: Rule, side: str) -> str:
    """Draw the plot of the model that `rule` reports, or of the one on which it is silent."""
    model = rule.fires_on if side == "reported" else rule.silent_on
    report = inspect_target(str(ROOT / model), rule.family)
    found = [finding for finding in report.findings if finding.code == rule.code]
    if bool(found) != (side == "reported"):
        raise ValueError(f"{model}: {rule.code} has {len(found)} findings, wanted is {side!r}")
    plain = CHARTS[CHART_OF_RULE[rule.code]](report)
    spec = plain
    for finding in found:
        spec = mark_sites(spec, finding)
    caption = _describe(rule, model, found, spec, is_ringed=spec != plain)
    svg = draw_static(f"{rule.name}-{side}", narrow_chart(spec))
    return frame_picture(svg, caption)


def narrow_chart(spec: Spec) -> Spec:
    """Return the chart for half a column: entries of the legend below each other."""
    layers = json.loads(json.dumps(spec["layer"]))
    for layer in layers:
        legend = layer["encoding"].get("color", {}).get("legend")
        if legend:
            legend["columns"] = 1
    height = min(spec["height"], _HEIGHT)
    size = {"width": _WIDTH, "height": height, "padding": _PADDING}
    return {**spec, **size, "layer": layers}


def frame_picture(svg: str, caption: Caption) -> str:
    """Return the SVG on a white ground, with its caption in it."""
    head, mark, rest = svg.partition(">")
    data = html.escape(json.dumps(asdict(caption), ensure_ascii=False), quote=False)
    ground = '<rect width="100%" height="100%" rx="6" fill="#ffffff"/>'
    return f"{head} {_FACE}{mark}<metadata>{data}</metadata>{ground}{rest}\n"


def _describe(
    rule: Rule, model: str, found: Sequence[Finding], spec: Spec, *, is_ringed: bool
) -> Caption:
    title = str(spec["title"]["text"])
    seen = found[0].message if found else f"{rule.code} reports nothing"
    return Caption(
        title=title,
        unit=next(_list_units(spec)),
        sentences=tuple(re.split(r"(?<=\.) (?=[A-Z])", spec["title"]["subtitle"][0])),
        thresholds=tuple(dict.fromkeys(_list_thresholds(spec))),
        is_ringed=is_ringed,
        alternative=f"{title}, of {model}: {seen}",
        verdict=_describe_verdict(found),
    )


def _describe_verdict(found: Sequence[Finding]) -> str:
    if not found:
        return "not reported"
    value, threshold = found[0].value, found[0].threshold
    if value is None:
        return "reported"
    limit = "" if threshold is None else f" (threshold {format_setting(threshold)})"
    return f"reported, {format_value(value)}{limit}"


def _list_units(spec: Spec) -> Iterator[str]:
    """Titles of the axis that has the values: the vertical one, except of bars with names."""
    for side in ("y", "x"):
        for layer in spec["layer"]:
            title = (layer["encoding"].get(side, {}).get("axis") or {}).get("title")
            if title:
                yield str(title)


def _list_thresholds(spec: Spec) -> Iterator[str]:
    for layer in spec["layer"]:
        mark = layer["mark"]
        if mark["type"] == "rule" and mark.get("color") == THRESHOLD:
            yield from (row["text"] for row in layer["data"]["values"] if row.get("text"))
