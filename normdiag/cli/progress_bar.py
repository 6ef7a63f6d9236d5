"""A progress bar on stderr."""

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

from normdiag.render.escape import escape_text


class ProgressBar:
    """A progress listener that draws one line per stage."""

    def __init__(self, bars: Progress) -> None:
        self._bars = bars
        self._task: TaskID | None = None

    def start_stage(self, what: str, total: int | None = None) -> None:
        """Begin the line of a stage; that of a running stage is completed first."""
        self.finish_stage()
        self._task = self._bars.add_task(escape_text(what), total=total)

    def advance_stage(self, n: int = 1) -> None:
        """Advance the bar by `n` steps."""
        if self._task is not None:
            self._bars.advance(self._task, n)

    def finish_stage(self) -> None:
        """Complete the bar of the stage."""
        if self._task is None:
            return
        task = self._bars.tasks[self._bars.task_ids.index(self._task)]
        total = task.total if task.total is not None else max(task.completed, 1)
        self._bars.update(self._task, total=total, completed=total)
        self._bars.stop_task(self._task)
        self._task = None


@contextmanager
def show_progress() -> Iterator[ProgressBar | None]:
    """Yield a listener that draws on stderr; None where stderr is not a terminal."""
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
    # By default rich would send what is written to stdout meanwhile to stderr. Prints go there
    # already (`library_output`), and the report must not.
    with Progress(*columns, console=console, redirect_stdout=False, transient=True) as bars:
        bar = ProgressBar(bars)
        try:
            yield bar
        finally:
            bar.finish_stage()
