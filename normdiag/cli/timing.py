"""Wall and CPU time of each stage of a run, written to stderr under `-v`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from normdiag.cli.messages import write_message
from normdiag.progress import Progress
from normdiag.render.escape import escape_text

MIN_SECONDS = 0.05
"""Stages that take less are not listed."""


@dataclass(slots=True)
class StageTimer:
    """A progress listener that times the stages and passes everything on to `listener`.

    Two stages of one name are added up.
    """

    listener: Progress
    wall_clock: Callable[[], float] = time.perf_counter
    cpu_clock: Callable[[], float] = time.process_time
    seconds: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Stage -> seconds on the wall clock and of the CPU."""
    _running: tuple[str, float, float] | None = None

    def start_stage(self, what: str, total: int | None = None) -> None:
        """Begin a stage; one that still runs ends."""
        self._stop_stage()
        self._running = (what, self.wall_clock(), self.cpu_clock())
        self.listener.start_stage(what, total)

    def advance_stage(self, n: int = 1) -> None:
        """Pass on that `n` more steps are complete."""
        self.listener.advance_stage(n)

    def finish_stage(self) -> None:
        """End the stage."""
        self._stop_stage()
        self.listener.finish_stage()

    def format_lines(self) -> list[str]:
        """Format one line per stage, in the order in which they began."""
        listed = {what: times for what, times in self.seconds.items() if max(times) >= MIN_SECONDS}
        width = max(map(len, map(escape_text, listed)), default=0)
        return [
            f"{escape_text(what):<{width}} {wall:7.1f} s, CPU {cpu:.1f} s"
            for what, (wall, cpu) in listed.items()
        ]

    def _stop_stage(self) -> None:
        if self._running is not None:
            what, wall, cpu = self._running
            before = self.seconds.get(what, (0.0, 0.0))
            self.seconds[what] = (
                before[0] + self.wall_clock() - wall,
                before[1] + self.cpu_clock() - cpu,
            )
            self._running = None


@contextmanager
def report_timings(listener: Progress, *, verbose: bool) -> Iterator[Progress]:
    """Yield `listener`; with `verbose`, write the time of its stages at the end."""
    if not verbose:
        yield listener
        return
    timer = StageTimer(listener)
    try:
        yield timer
    finally:
        timer.finish_stage()
        for line in timer.format_lines():
            write_message(line)
