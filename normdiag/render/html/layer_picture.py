"""A layer as a picture: the stream runs down, branches leave it and are added to it."""

from __future__ import annotations

import html
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from normdiag.charts.colours import BLUE, THRESHOLD
from normdiag.evidence.architecture import Norm, Scale
from normdiag.number_text import format_setting
from normdiag.render.escape import escape_in_full
from normdiag.render.html.layer_kinds import DrawnAdd, LayerKind, format_layers

WIDTH = 330
_STREAM, _BRANCH = 62, 226
"""Where the stream and the middle of a branch stand."""
_HEIGHT, _GAP = 34, 10
_WIDE, _NARROW, _ON_STREAM = 150, 92, 108
"""Widths of a box alone, of one of two beside each other, and of one on the stream."""
_LETTER = 5.6
"""Pixels that a letter of a box takes, at most."""

Box = tuple[str, str, str | None]
"""Two lines of text, and the id of the norm; None: no norm."""


@dataclass(slots=True)
class _Pen:
    """Shapes drawn so far, and how far down."""

    marked: Collection[str]
    """Ids of norms and adds that findings name."""
    shapes: list[str] = field(default_factory=list)
    y: float = 0.0

    def draw_line(self, *points: tuple[float, float], arrow: bool = False) -> None:
        path = "L".join(f"{x:g},{y:g}" for x, y in points)
        self.shapes.append(f'<path d="M{path}" fill="none" stroke="currentColor"/>')
        if arrow:
            (before, _), (x, y) = points[-2], points[-1]
            turn = "" if before == x else f' transform="rotate(90 {x:g} {y:g})"'
            self.shapes.append(f'<path d="M{x:g},{y:g}l-4,-7h8z" fill="currentColor"{turn}/>')

    def draw_box(self, x: float, y: float, width: float, box: Box) -> None:
        first, second, norm = box
        hue = "currentColor" if norm is None else BLUE
        stroke = (
            f'stroke="{THRESHOLD}" stroke-width="3"' if norm in self.marked else f'stroke="{hue}"'
        )
        fill = f'fill="{hue}" fill-opacity="{0.06 if norm is None else 0.16}"'
        self.shapes.append(
            f'<rect x="{x - width / 2:g}" y="{y:g}" width="{width:g}" height="{_HEIGHT}" rx="4" '
            f"{fill} {stroke}/>"
        )
        middle = _HEIGHT / 2 + 4 if not second else 14
        self.write(first, x, y + middle, width, size=12)
        if second:
            self.write(second, x, y + 27, width)

    def write(
        self, text: str, x: float, y: float, width: float, *, size: int = 10, anchor: str = "middle"
    ) -> None:
        shown = html.escape(_shorten(escape_in_full(text), int(width / _LETTER)))
        self.shapes.append(
            f'<text x="{x:g}" y="{y:g}" font-size="{size}" text-anchor="{anchor}" '
            f'fill="currentColor">{shown}</text>'
        )


def draw_layer(
    kind: LayerKind,
    marked: Collection[str],
    *,
    ahead: str | None = None,
    behind: str | None = None,
) -> str:
    """Return the layers of one kind as an `<svg>` element.

    `marked`: ids of norms and adds of any of these layers that are outlined; `ahead`, `behind`: ids
    of the norms on the stream before the first layer and after the last.
    """
    pen = _Pen(marked={kind.twins.get(id, id) for id in marked}, y=14.0)
    pen.write("x", _STREAM, 10, 40, size=12)
    if ahead is not None:
        _draw_on_stream(pen, [("norm", _shorten_id(ahead), ahead)])
    pen.y += 8
    top = pen.y
    for each in kind.adds:
        _draw_add(pen, each)
    pen.y += 10
    frame = (
        f'<rect x="1" y="{top:g}" width="{WIDTH - 2}" height="{pen.y - top:g}" rx="8" fill="none" '
        'stroke="currentColor" stroke-opacity="0.45" stroke-dasharray="5 4"/>'
    )
    pen.write(f"× {len(kind.layers)}", WIDTH - 10, pen.y - 6, 60, size=14, anchor="end")
    pen.draw_line((_STREAM, pen.y), (_STREAM, pen.y + 18), arrow=behind is None)
    pen.y += 18
    if behind is not None:
        _draw_on_stream(pen, [("final norm", _shorten_id(behind), behind)])
        pen.draw_line((_STREAM, pen.y), (_STREAM, pen.y + 12), arrow=True)
        pen.y += 12
    label = html.escape(
        escape_in_full(f"{kind.stack.title}: {kind.stack.drawing}, {format_layers(kind.layers)}")
    )
    height = pen.y + 6
    return (
        f'<svg role="img" aria-label="{label}" xmlns="http://www.w3.org/2000/svg" '
        f'width="{WIDTH}" height="{height:g}" viewBox="0 0 {WIDTH} {height:g}">'
        f"{frame}{''.join(pen.shapes)}</svg>"
    )


def _draw_add(pen: _Pen, drawn: DrawnAdd) -> None:
    _draw_on_stream(pen, [_label_norm(norm) for norm in drawn.ahead])
    add, tap = drawn.add, pen.y + 14
    pen.draw_line((_STREAM, pen.y), (_STREAM, tap))
    pen.shapes.append(f'<circle cx="{_STREAM}" cy="{tap:g}" r="3" fill="currentColor"/>')
    rows: list[list[Box]] = [
        [_label_norm(norm) for norm in drawn.inputs],
        _label_branches(drawn),
        [_label_norm(norm) for norm in drawn.outputs],
    ]
    pen.y = tap + 6
    pen.draw_line((_STREAM, tap), (_BRANCH, tap), (_BRANCH, pen.y))
    _draw_rows(pen, [row for row in rows if row])
    if add.raw_readers and drawn.inputs:
        _draw_bypass(pen, tap)
    below = [_label_norm(norm) for norm in drawn.skip]
    below += [("P, projection", "", None)] if add.is_projected else []
    below += [("gate g(x)", "", None)] if add.is_gated else []
    end = max(pen.y + 12, tap + 32 + len(below) * (_HEIGHT + _GAP))
    pen.draw_line((_BRANCH, pen.y), (_BRANCH, end), (_STREAM + 10, end), arrow=True)
    _write_scale(pen, add.branch_scale, (_STREAM + _BRANCH) / 2 + 8, end - 5)
    pen.draw_line((_STREAM, tap), (_STREAM, tap + 8))
    pen.y = tap + 8
    _draw_on_stream(pen, below)
    if below == []:
        _write_scale(pen, add.skip_scale, _STREAM + 6, (tap + end) / 2, anchor="start")
    pen.draw_line((_STREAM, pen.y), (_STREAM, end - 9), arrow=True)
    _draw_plus(pen, end, is_marked=add.id in pen.marked)
    pen.y = end + 9
    _draw_on_stream(pen, [_label_norm(norm) for norm in drawn.behind])


def _draw_rows(pen: _Pen, rows: Sequence[Sequence[Box]]) -> None:
    """Rows of boxes below each other: from one to one where two rows have as many, else joined."""
    shown = [
        list(row) if len(row) <= 2 else [(f"{len(row)} norms", row[0][1], row[0][2])]
        for row in rows
    ]
    columns = [(0,) if len(row) == 1 else (-50, 50) for row in shown]
    for place, (row, sides) in enumerate(zip(shown, columns, strict=True)):
        is_joined = place == 0 or columns[place - 1] != sides
        top, bottom = pen.y + 12, pen.y + 12 + _HEIGHT
        if is_joined and place:
            _join_columns(pen, columns[place - 1], pen.y)
        for side, box in zip(sides, row, strict=True):
            x = _BRANCH + side
            start = [(_BRANCH, pen.y)] if is_joined else []
            pen.draw_line(*start, (x, pen.y), (x, top), arrow=True)
            pen.draw_box(x, top, _NARROW if side else _WIDE, box)
            pen.draw_line((x, bottom), (x, bottom + 4))
        pen.y = bottom + 4
    _join_columns(pen, columns[-1], pen.y)


def _join_columns(pen: _Pen, sides: Sequence[int], y: float) -> None:
    if len(sides) > 1:
        pen.draw_line((_BRANCH + sides[0], y), (_BRANCH + sides[-1], y))


def _draw_on_stream(pen: _Pen, boxes: Sequence[Box]) -> None:
    for box in boxes:
        pen.draw_line((_STREAM, pen.y), (_STREAM, pen.y + _GAP), arrow=True)
        pen.draw_box(_STREAM, pen.y + _GAP, _ON_STREAM, box)
        pen.y += _GAP + _HEIGHT


def _draw_bypass(pen: _Pen, tap: float) -> None:
    """A dashed line from the stream to the branch, past its input norms."""
    side = WIDTH - 14
    y = tap + 6 + 12 + _HEIGHT + 4
    points = f"M{_BRANCH},{tap:g}L{side},{tap:g}L{side},{y:g}L{_BRANCH + 6},{y:g}"
    pen.shapes.append(
        f'<path d="{points}" fill="none" stroke="{THRESHOLD}" stroke-width="2" '
        'stroke-dasharray="4 3"/>'
    )


def _draw_plus(pen: _Pen, y: float, *, is_marked: bool) -> None:
    stroke = f'stroke="{THRESHOLD}" stroke-width="3"' if is_marked else 'stroke="currentColor"'
    pen.shapes.append(f'<circle cx="{_STREAM}" cy="{y:g}" r="9" fill="none" {stroke}/>')
    pen.draw_line((_STREAM - 5, y), (_STREAM + 5, y))
    pen.draw_line((_STREAM, y - 5), (_STREAM, y + 5))


def _write_scale(pen: _Pen, scale: Scale, x: float, y: float, *, anchor: str = "middle") -> None:
    if scale.kind == "none":
        return
    size = scale.value if scale.value is not None else scale.rms
    words = "" if size is None else f" {format_setting(float(f'{size:.3g}'))}"
    pen.write(f"×{words} {'learned' if scale.kind == 'learned' else ''}", x, y, 90, anchor=anchor)


def _label_norm(norm: Norm) -> Box:
    return norm.kind, _shorten_id(norm.id), norm.id


def _label_branches(drawn: DrawnAdd) -> list[Box]:
    inside = f"{len(drawn.inner)} norms inside" if len(drawn.inner) > 1 else "a norm inside"
    second = inside if drawn.inner else ""
    if drawn.add.branches == 1:
        return [("F", second, None)]
    if drawn.add.branches == 2:
        return [("F₁", second, None), ("F₂", "", None)]
    return [(f"F, {drawn.add.branches} branches", second, None)]


def _shorten_id(id: str) -> str:
    """The last part of a path: what the modules of one layer are told apart by."""
    return id.rsplit(".", 1)[-1]


def _shorten(text: str, room: int) -> str:
    return text if len(text) <= room else f"{text[: max(room - 1, 1)]}…"
