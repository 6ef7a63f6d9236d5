"""Text from outside, with every character that does not print spelled out."""

from __future__ import annotations


def escape_in_full(text: str) -> str:
    r"""Return `text` with every character that does not print spelled out, such as `\x1b`.

    That is controls (a terminal would obey them), line breaks, bidirectional overrides and
    zero-width characters (they make one name look like another), and halves of surrogate pairs.
    """
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii")
        for char in text
    )
