"""A listener to progress that keeps what it hears."""

from __future__ import annotations


class RecordedProgress:
    """Notes what is started and advanced."""

    def __init__(self) -> None:
        self.events: list[tuple[str, int | None] | int] = []

    def start_stage(self, what: str, total: int | None = None) -> None:
        self.events.append((what, total))

    def advance_stage(self, n: int = 1) -> None:
        self.events.append(n)

    def finish_stage(self) -> None:
        pass
