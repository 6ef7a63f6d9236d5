"""Progress of a run, as the observing half reports it."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Receives one stage of a run at a time: its start, its steps, its end."""

    def start_stage(self, what: str, total: int | None = None) -> None:
        """Begin the stage `what`, of `total` steps where that is known."""
        ...

    def advance_stage(self, n: int = 1) -> None:
        """Count `n` more steps."""
        ...

    def finish_stage(self) -> None:
        """End the stage."""
        ...


class NoProgress:
    """Ignores all progress."""

    def start_stage(self, what: str, total: int | None = None) -> None:
        """Do nothing."""

    def advance_stage(self, n: int = 1) -> None:
        """Do nothing."""

    def finish_stage(self) -> None:
        """Do nothing."""
