"""What is said beside the report: on stderr, in plain text, with nothing that a terminal obeys."""

from __future__ import annotations

import typer


def say(text: str) -> None:
    """Write `text` to stderr; characters that do not print (escapes, overrides) become visible."""
    typer.echo("".join(_visible(character) for character in text), err=True)


def hanging(text: str) -> str:
    """`text` from outside, none of whose lines begins one: there CI services look for commands."""
    return text.replace("\n", "\n  | ")


def _visible(character: str) -> str:
    if character.isprintable() or character in "\n\t":
        return character
    return character.encode("unicode_escape").decode("ascii")
