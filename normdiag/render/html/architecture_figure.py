"""The architecture drawn: every kind of layer of every stack once, as found in the data flow."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

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
    ends = _find_ends(stacks)
    pictures = tuple(
        LayerDrawing(
            title=kind.stack.title,
            formula=kind.stack.drawing,
            layers=f"{kind.stack.placement}, {format_layers(kind.layers)}",
            svg=_draw_kind(kind, marked, ends if kind is kinds[kind.stack.id][0] else {}),
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


def _find_ends(stacks: Iterable[Stack]) -> dict[str, tuple[str | None, str | None]]:
    """Stack id -> the norms ahead of its layers and behind them; one of several stacks only once.

    Stacks that follow each other have the same embedding norm, which stands ahead of the first.
    """
    ends: dict[str, tuple[str | None, str | None]] = {}
    seen: set[str | None] = set()
    for stack in stacks:
        ahead = None if stack.embedding_norm in seen else stack.embedding_norm
        ends[stack.id] = (ahead, stack.final_norm)
        seen.add(ahead)
    return ends


def _draw_kind(
    kind: LayerKind, marked: Collection[str], ends: Mapping[str, tuple[str | None, str | None]]
) -> str:
    ahead, behind = ends.get(kind.stack.id, (None, None))
    return draw_layer(kind, marked, ahead=ahead, behind=behind)


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
