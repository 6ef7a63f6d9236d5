"""Long names in several lines, broken between their parts."""

from __future__ import annotations

import re

from rich.cells import cell_len
from rich.text import Text

from normdiag.render.escape import escape_text

_PART = re.compile(r"[^./:]+[./:]*|[./:]+")
_PIECE = re.compile(r"[^_-]+[_-]*|[_-]+")


def fold_name(name: str, width: int) -> str:
    """Return `name`, escaped, broken into lines of `width` after dots, slashes, colons or, in what
    is longer than a line, underscores and hyphens."""
    return "\n".join(_fold_escaped(escape_text(name), width))


def fold_words(text: Text, width: int) -> Text:
    """Return the text, words that are wider than `width` broken as names are."""
    offsets = []
    for word in re.finditer(r"\S+", text.plain):
        if cell_len(word[0]) > width:
            place = word.start()
            for line in _fold_escaped(word[0], width)[:-1]:
                place += len(line)
                offsets.append(place)
    return Text("\n").join(text.divide(offsets)) if offsets else text


def measure_name(name: str) -> tuple[int, int, int]:
    """Return the width of the longest piece of a name, of its longest part, and of the name."""
    name = escape_text(name)
    parts = _PART.findall(name)
    pieces = [piece for part in parts for piece in _PIECE.findall(part)]
    return _measure_longest(pieces), _measure_longest(parts), cell_len(name)


def _measure_longest(texts: list[str]) -> int:
    return max(map(cell_len, texts), default=0)


def _fold_escaped(name: str, width: int) -> list[str]:
    lines = [""]
    for part in _PART.findall(name):
        pieces = [part] if cell_len(part) <= width else _PIECE.findall(part)
        for piece in pieces:
            if lines[-1] and cell_len(lines[-1] + piece) > width:
                lines.append("")
            lines[-1] += piece
    return lines
