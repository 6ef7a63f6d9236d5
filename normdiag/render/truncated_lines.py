"""The first few of many names, and how many more there are."""

from __future__ import annotations

from collections.abc import Iterable


def truncate_lines(names: Iterable[str], most: int | None) -> list[str]:
    """Return the first `most` of `names` (None: all), and last "and 12 more" where there are more.

    >>> truncate_lines(("a", "b", "c"), 2)
    ['a', 'b', 'and 1 more']
    """
    shown, rest = _split_lines(names, most)
    return [*shown, rest] if rest else shown


def join_truncated(names: Iterable[str], most: int | None) -> str:
    """Return the same in one line.

    >>> join_truncated(("a", "b", "c"), 2)
    'a, b and 1 more'
    """
    shown, rest = _split_lines(names, most)
    return f"{', '.join(shown)} {rest}".rstrip()


def _split_lines(names: Iterable[str], most: int | None) -> tuple[list[str], str]:
    lines = list(names)
    shown = lines[:most]
    more = len(lines) - len(shown)
    return shown, f"and {more:,} more" if more else ""
