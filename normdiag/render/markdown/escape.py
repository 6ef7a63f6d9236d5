"""Any text as words and code spans, so that no name is read as markup, a link or a mention."""

from __future__ import annotations

import html
import re
from collections.abc import Callable

from normdiag.render.escape import escape_in_full, escape_text

_PLAIN = re.compile(r"[\w.,:;()\[\]%+='\"×±√-]*")
_COMMAND = re.compile(r"normdiag [a-z]")
_BLOCK_MARK = re.compile(r"[+=-]+|\d+[.)]")
"""What would begin a list, a heading or a rule where it is the first word of a line."""


def format_code(text: str) -> str:
    """Return `text` as a code span, whatever it holds."""
    shown = escape_text(text).replace("|", "\\|") or " "
    longest = max((len(run) for run in re.findall("`+", shown)), default=0)
    fence = "`" * (longest + 1)
    gap = " " if shown.startswith("`") or shown.endswith("`") else ""
    return f"{fence}{gap}{shown}{gap}{fence}"


def escape_words(text: str) -> str:
    """Return `text` with every word that is not plain as code, its punctuation left outside."""
    words = [_escape_word(word, format_code) for word in escape_in_full(text).split(" ")]
    return " ".join(words)


def escape_line(text: str) -> str:
    """Return the same where it begins a line or a list item."""
    first, gap, rest = text.partition(" ")
    if _BLOCK_MARK.fullmatch(first):
        return format_code(first) + gap + escape_words(rest)
    return escape_words(text)


def escape_advice(text: str) -> str:
    """Return the same, with the command that `text` is or ends in as one piece, to be copied."""
    advice, see, command = text.rpartition("see: ")
    if _COMMAND.match(command):
        return escape_words(advice + see) + format_code(command)
    return escape_words(text)


def escape_html(text: str) -> str:
    """Return the same as HTML, for a summary line that Markdown does not read."""
    words = escape_in_full(text).split(" ")
    return " ".join(_escape_word(word, _format_html_code, "") for word in words)


def _format_html_code(text: str) -> str:
    return f"<code>{html.escape(escape_text(text))}</code>"


def _escape_word(word: str, format_span: Callable[[str], str], backslash: str = "\\") -> str:
    if _PLAIN.fullmatch(word) and "_" not in word and "www." not in word.lower():
        return word.replace("[", f"{backslash}[").replace("]", f"{backslash}]")
    head = re.match(r"\(*", word)
    start = head.end() if head else 0
    end = len(word.rstrip(".,:;)"))
    while word.count("(", start, end) > word.count(")", start, end) and word[end:].startswith(")"):
        end += 1
    if end <= start:
        return format_span(word)
    return word[:start] + format_span(word[start:end]) + word[end:]
