"""Messages on stderr: plain text without terminal control characters."""

from __future__ import annotations

import typer


def write_message(text: str) -> None:
    """Write `text` to stderr; characters that do not print (escapes, overrides) become visible."""
    typer.echo("".join(_make_visible(character) for character in text), err=True)


def indent_continuation(text: str) -> str:
    """Mark all lines but the first, so that none is read as a command by a CI service."""
    return text.replace("\n", "\n  | ")


def _make_visible(character: str) -> str:
    if character.isprintable() or character in "\n\t":
        return character
    return character.encode("unicode_escape").decode("ascii")
