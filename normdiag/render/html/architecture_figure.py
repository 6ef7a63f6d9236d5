"""The architecture drawn: every kind of layer of every stack once, as found in the data flow."""

from __future__ import annotations

from collections.abc import Iterator

from normdiag.evidence.architecture import Architecture, Stack, StreamBreak
from normdiag.findings import Finding
from normdiag.number_text import format_count
from normdiag.render.html.document import Drawing, LayerDrawing
from normdiag.render.html.layer_kinds import LayerKind, format_layers, list_layer_kinds
from normdiag.render.html.layer_picture import draw_layer
from normdiag.report.report import Report

NAME = "architecture"
_FAMILY = "ND1"
"""Of the rules on placement, whose sites are drawn."""
_KINDS, _PICTURES = 3, 12
_NOTES = 6


def is_drawn(code: str) -> bool:
    """Whether the drawing shows what a rule judges."""
    return code.startswith(_FAMILY)


def draw_architecture(report: Report) -> Drawing | None:
    """Return the drawing; None without a stack."""
    stacks = report.architecture.stacks
    kinds = {stack.id: list_layer_kinds(report.architecture, stack) for stack in stacks}
    shown = [kind for each in kinds.values() for kind in each[:_KINDS]]
    if not shown:
        return None
    findings = [each for each in report.findings if is_drawn(each.code)]
    marked = {id for finding in findings for id in finding.ids}
    pictures = tuple(
        LayerDrawing(
            title=kind.stack.title,
            formula=kind.stack.drawing,
            layers=f"{kind.stack.placement}, {format_layers(kind.layers)}",
            svg=draw_layer(kind, marked, is_whole=kind is kinds[kind.stack.id][0]),
        )
        for kind in shown[:_PICTURES]
    )
    return Drawing(
        name=NAME,
        title="Architecture: a layer of every stack, with its norms and adds as found",
        healthy="Blue: norms. F: whatever a branch computes. + in a circle: a residual add. "
        "Healthy: all layers of a stack alike; a norm ahead of every branch and a final norm "
        "(pre), or a norm behind every add (post).",
        pictures=pictures,
        gaps=tuple(map(_describe_gap, report.architecture.breaks[:_NOTES])),
        notes=tuple(_list_notes(report.architecture, kinds, len(shown)))[:_NOTES],
        cards=tuple(dict.fromkeys(map(_title_card, findings))),
    )


def _title_card(finding: Finding) -> str:
    return f"{finding.code} {finding.name}"


def _describe_gap(gap: StreamBreak) -> str:
    return f"Not added to the stream: the branch from {gap.first_module} to {gap.last_module}."


def _list_notes(
    architecture: Architecture, kinds: dict[str, tuple[LayerKind, ...]], drawn: int
) -> Iterator[str]:
    """What the pictures do not show."""
    for stack in architecture.stacks:
        yield from _describe_rest(stack, kinds[stack.id][_KINDS:])
    if drawn > _PICTURES:
        yield f"{format_count(drawn - _PICTURES, 'more picture')} not drawn."


def _describe_rest(stack: Stack, rest: tuple[LayerKind, ...]) -> Iterator[str]:
    if rest:
        layers = [layer for kind in rest for layer in kind.layers]
        yield f"Of {stack.title} other kinds: {format_layers(layers)}."
    if stack.single_adds:
        names = ", ".join(add.id for add in stack.single_adds[:3])
        count = format_count(len(stack.single_adds), "add")
        yield f"On the stream of {stack.title} outside its layers: {count} ({names})."
