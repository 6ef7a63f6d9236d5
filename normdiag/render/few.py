"""The first few of many names, and how many more there are."""

from __future__ import annotations

from collections.abc import Iterable


def few(names: Iterable[str], most: int | None) -> list[str]:
    """Return the first `most` of `names` (None: all), and last "and 12 more" where there are more.

    >>> few(("a", "b", "c"), 2)
    ['a', 'b', 'and 1 more']
    """
    shown, rest = _parted(names, most)
    return [*shown, rest] if rest else shown


def named(names: Iterable[str], most: int | None) -> str:
    """Return the same in one line.

    >>> named(("a", "b", "c"), 2)
    'a, b and 1 more'
    """
    shown, rest = _parted(names, most)
    return f"{', '.join(shown)} {rest}".rstrip()


def _parted(names: Iterable[str], most: int | None) -> tuple[list[str], str]:
    given = list(names)
    shown = given[:most]
    more = len(given) - len(shown)
    return shown, f"and {more:,} more" if more else ""
