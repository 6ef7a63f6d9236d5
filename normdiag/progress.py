"""How far the work has come: what the observing half tells, and anyone may listen to."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Listens to one piece of work at a time: a start, its steps, its end."""

    def start(self, what: str, total: int | None = None) -> None:
        """A piece of work begins, of `total` steps where that is known."""
        ...

    def advance(self, n: int = 1) -> None:
        """`n` more steps are done."""
        ...

    def done(self) -> None:
        """The piece of work is over."""
        ...


class Silent:
    """Nobody listens."""

    def start(self, what: str, total: int | None = None) -> None:
        """Tell nobody."""

    def advance(self, n: int = 1) -> None:
        """Tell nobody."""

    def done(self) -> None:
        """Tell nobody."""
