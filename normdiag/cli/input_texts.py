"""The texts to run: from the command line, stdin or a file."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from normdiag.errors import UsageError

_JSON_LINE = 'each line must be a string or an object such as {"text": "..."}'


def expand_stdin(texts: Sequence[str]) -> tuple[str, ...]:
    """Return the texts of `--text`, with "-" replaced by all of stdin as one text.

    Raises UsageError for an empty text and for a second "-".
    """
    if texts.count("-") > 1:
        raise UsageError("invalid option: --text - twice", "stdin can be read once: give - once")
    expanded = tuple(_read_stdin() if text == "-" else text for text in texts)
    if "" in expanded:
        raise UsageError("invalid option: --text is empty", "give at least one character")
    return expanded


def read_text_file(path: Path) -> tuple[str, ...]:
    """Read texts, one per line; of `.jsonl`, a string or an object with "text" per line.

    Blank lines are skipped. Raises UsageError for a file that is unreadable, is not UTF-8 or holds
    no text, and for a line of `.jsonl` that is neither, with its number.
    """
    try:
        content = path.read_text(encoding="utf-8-sig")  # some editors put a mark first
    except OSError as error:
        raise UsageError(
            f"cannot read the texts {str(path)!r}: {error.strerror}",
            "give a file with one text per line, or .jsonl",
        ) from error
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{str(path)!r} is not UTF-8: {error.reason}", "save it as UTF-8 text"
        ) from error
    # Not splitlines: it also breaks at characters (form feed, U+2028) that belong to a text.
    lines = [(number, line) for number, line in enumerate(content.split("\n"), 1) if line.strip()]
    if not lines:
        raise UsageError(f"{str(path)!r} holds no text", "write one text per line")
    if path.suffix == ".jsonl":
        return tuple(_parse_json_line(path, number, line) for number, line in lines)
    return tuple(line.removesuffix("\r") for _, line in lines)


def _parse_json_line(path: Path, number: int, line: str) -> str:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"line {number} of {str(path)!r} is not JSON: {error}", _JSON_LINE
        ) from error
    text = value.get("text") if isinstance(value, dict) else value
    if not isinstance(text, str) or not text:
        raise UsageError(f'line {number} of {str(path)!r} has no "text"', _JSON_LINE)
    return text


def _read_stdin() -> str:
    if sys.stdin is None:
        raise UsageError("stdin is closed", "send a text: echo TEXT | normdiag .. --text -")
    try:
        return sys.stdin.read().removesuffix("\n")
    except UnicodeDecodeError as error:
        raise UsageError(
            f"the text on stdin is not {error.encoding}: {error.reason}", "send encoded text"
        ) from error
