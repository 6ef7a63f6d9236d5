"""Text from outside (names, tokens, paths, messages) made safe and visible on a terminal."""

from __future__ import annotations

import re

from rich.cells import cell_len

_LONGEST = 300


def visible(text: str) -> str:
    r"""Return `text` with every character that does not print spelled out, such as `\x1b`.

    That is controls (a terminal would obey them), line breaks, bidirectional overrides and
    zero-width characters (they make one name look like another), and halves of surrogate pairs.
    A text of more than 300 characters loses its middle, and says so.
    """
    if len(text) > _LONGEST:
        half = _LONGEST // 2
        text = f"{text[:half]}[.. {len(text) - 2 * half} characters ..]{text[-half:]}"
    return spelled(text)


def spelled(text: str) -> str:
    """Return `text` made visible and not shortened, for formats that have the room."""
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii")
        for char in text
    )


def folded(name: str, width: int) -> str:
    """Return a visible `name`, broken into lines of `width` after dots, slashes or underscores."""
    lines = [""]
    for part in re.findall(r"[^./]+[./]*|[./]+", visible(name)):
        pieces = [part] if cell_len(part) <= width else re.findall(r"[^_]+_*|_+", part)
        for piece in pieces:
            if lines[-1] and cell_len(lines[-1] + piece) > width:
                lines.append("")
            lines[-1] += piece
    return "\n".join(lines)
