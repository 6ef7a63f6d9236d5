"""The texts that a user wants to be run: typed, on stdin, or in a file."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from normdiag.errors import UsageError


def typed(given: list[str]) -> tuple[str, ...]:
    """The texts of `--text`; "-" stands for all of stdin, as one text.

    Raises UsageError: an empty text, stdin asked for twice.
    """
    if given.count("-") > 1:
        raise UsageError("--text - was given twice", "stdin can be read once: give it once")
    texts = tuple(_stdin() if text == "-" else text for text in given)
    if "" in texts:
        raise UsageError("a --text is empty", "give at least one character, in quotes")
    return texts


def read(path: Path) -> tuple[str, ...]:
    """The texts in a file: one a line, or in `.jsonl` a string or an object with "text" a line.

    Blank lines are left out. Raises UsageError: unreadable, not UTF-8, no text in it, or a line of
    `.jsonl` that is something else, with its number.
    """
    try:
        content = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"cannot read the texts {str(path)!r}: {error.strerror}",
            "give a file with one text a line, or .jsonl",
        ) from error
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{str(path)!r} is not UTF-8: {error.reason}", "save it as UTF-8 text"
        ) from error
    # Not splitlines: it also breaks at characters (form feed, U+2028) that belong to a text.
    lines = [(number, line) for number, line in enumerate(content.split("\n"), 1) if line.strip()]
    if not lines:
        raise UsageError(f"{str(path)!r} holds no text", "write one text a line")
    if path.suffix == ".jsonl":
        return tuple(_from_json(path, number, line) for number, line in lines)
    return tuple(line.removesuffix("\r") for _, line in lines)


def _from_json(path: Path, number: int, line: str) -> str:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"line {number} of {str(path)!r} is not JSON: {error}",
            'each line is a string or an object such as {"text": "..."}',
        ) from error
    text = found.get("text") if isinstance(found, dict) else found
    if not isinstance(text, str) or not text:
        raise UsageError(
            f'line {number} of {str(path)!r} has no "text"',
            'each line is a string or an object such as {"text": "..."}',
        )
    return text


def _stdin() -> str:
    try:
        return sys.stdin.read().removesuffix("\n")
    except UnicodeDecodeError as error:
        raise UsageError(
            f"what came on stdin is not {error.encoding}: {error.reason}", "send text"
        ) from error
