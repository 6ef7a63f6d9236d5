"""What each piece of work costs: seconds on the clock and of the processor, told under `-v`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from normdiag.cli.messages import say
from normdiag.progress import Progress
from normdiag.render.escape import visible

_LEAST = 0.05
"""Seconds: what costs less is not worth a line."""


@dataclass(slots=True)
class Costs:
    """Listens to progress and passes it on; the same piece of work in two turns is one cost."""

    listener: Progress
    clock: Callable[[], float] = time.perf_counter
    processor: Callable[[], float] = time.process_time
    seconds: dict[str, tuple[float, float]] = field(default_factory=dict)
    _running: tuple[str, float, float] | None = None

    def start(self, what: str, total: int | None = None) -> None:
        """A piece of work begins; one that still runs is over."""
        self._stop()
        self._running = (what, self.clock(), self.processor())
        self.listener.start(what, total)

    def advance(self, n: int = 1) -> None:
        """`n` more steps are done."""
        self.listener.advance(n)

    def done(self) -> None:
        """The piece of work is over."""
        self._stop()
        self.listener.done()

    def lines(self) -> list[str]:
        """One line per piece of work, in the order in which they began."""
        told = {what: cost for what, cost in self.seconds.items() if max(cost) >= _LEAST}
        width = max(map(len, map(visible, told)), default=0)
        return [
            f"{visible(what):<{width}} {wall:7.1f} s, {busy:.1f} s of the processor"
            for what, (wall, busy) in told.items()
        ]

    def _stop(self) -> None:
        if self._running is not None:
            what, wall, busy = self._running
            before = self.seconds.get(what, (0.0, 0.0))
            self.seconds[what] = (
                before[0] + self.clock() - wall,
                before[1] + self.processor() - busy,
            )
            self._running = None


@contextmanager
def told(listener: Progress, *, verbose: bool) -> Iterator[Progress]:
    """`listener`, whose costs are said in the end where `verbose`, also after an error."""
    if not verbose:
        yield listener
        return
    costs = Costs(listener)
    try:
        yield costs
    finally:
        costs.done()
        for line in costs.lines():
            say(line)
