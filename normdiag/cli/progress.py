"""The pipeline's progress as a bar on stderr."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
)

from normdiag.render.escape import visible


class Bar:
    """One line per piece of work, full when the work is done."""

    def __init__(self, bars: Progress) -> None:
        self._bars = bars
        self._task: TaskID | None = None

    def start(self, what: str, total: int | None = None) -> None:
        """Begin a line; one that still runs is closed first."""
        self.done()
        self._task = self._bars.add_task(visible(what), total=total)

    def advance(self, n: int = 1) -> None:
        """Move the bar on."""
        if self._task is not None:
            self._bars.advance(self._task, n)

    def done(self) -> None:
        """Fill the bar and leave it."""
        if self._task is None:
            return
        task = self._bars.tasks[self._bars.task_ids.index(self._task)]
        total = task.total if task.total is not None else max(task.completed, 1)
        self._bars.update(self._task, total=total, completed=total)
        self._bars.stop_task(self._task)
        self._task = None


@contextmanager
def shown() -> Iterator[Bar | None]:
    """A listener that draws on stderr until all is done; None where stderr is no terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        TaskProgressColumn(),
        TimeElapsedColumn(),
    )
    # Left to itself rich would send what is written to stdout meanwhile to stderr, which `quiet`
    # has done already, and for the report this must never happen.
    with Progress(*columns, console=console, redirect_stdout=False, transient=True) as bars:
        bar = Bar(bars)
        try:
            yield bar
        finally:
            bar.done()
