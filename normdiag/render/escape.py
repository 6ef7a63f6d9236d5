"""Text from outside (names, tokens, paths, messages) made safe and visible on a terminal."""

from __future__ import annotations

from normdiag.printable_text import escape_in_full as escape_in_full

_LONGEST = 300
_LONGEST_MESSAGE = 1500


def escape_text(text: str) -> str:
    r"""Return `text` with every character that does not print spelled out, such as `\x1b`.

    That is controls (a terminal would obey them), line breaks, bidirectional overrides and
    zero-width characters (they make one name look like another), and halves of surrogate pairs.
    A text of more than 300 characters loses its middle, and says so.
    """
    return escape_in_full(shorten_text(text))


def shorten_text(text: str) -> str:
    """Return `text`, of more than 300 characters the two ends and how many are left out."""
    if len(text) <= _LONGEST:
        return text
    half = _LONGEST // 2
    return f"{text[:half]}[.. {len(text) - 2 * half} characters ..]{text[-half:]}"


def shorten_message(text: str) -> str:
    """Return a message with all of its names and numbers, unless it is out of all proportion."""
    return text if len(text) <= _LONGEST_MESSAGE else shorten_text(text)
