"""What the commands that run models have in common: from targets to a report or a comparison."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum

import typer

from normdiag.cli import request
from normdiag.cli.commandline import typed
from normdiag.cli.costs import told
from normdiag.cli.memory import give_back
from normdiag.cli.options import Comparing, Observing
from normdiag.cli.progress import shown
from normdiag.cli.quiet import quiet
from normdiag.config import Settings
from normdiag.errors import LoadError
from normdiag.progress import Silent
from normdiag.report.compare.comparison import Comparison
from normdiag.report.report import Report


class Work(StrEnum):
    """What the pipeline is asked for."""

    INSPECT = "inspect"
    TRACE = "trace"


def observe(
    work: Work, target: str, observing: Observing, settings: Settings, context: typer.Context
) -> Report:
    """Run the pipeline on `target`; whatever is printed meanwhile goes to stderr."""
    verbose = context.params["verbose"]
    give_back()
    with quiet(verbose=verbose):
        options = request.options(observing, settings, typed(context))

        from normdiag import pipeline

        run = pipeline.trace if work is Work.TRACE else pipeline.inspect
        with _needing_torch(), shown() as bar, told(bar or Silent(), verbose=verbose) as progress:
            return run(target, options=options, progress=progress)


def compare_targets(
    pair: tuple[str, str], comparing: Comparing, settings: Settings, context: typer.Context
) -> Comparison:
    """Run the pipeline on both; whatever is printed meanwhile goes to stderr."""
    verbose = context.params["verbose"]
    give_back()
    with quiet(verbose=verbose):
        options = request.options(comparing.observing, settings, typed(context))
        second = request.second(options, comparing.second)

        from normdiag import pipeline

        with _needing_torch(), shown() as bar, told(bar or Silent(), verbose=verbose) as progress:
            return pipeline.compare(*pair, options=options, second=second, progress=progress)


@contextmanager
def _needing_torch() -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        library = (error.name or "torch").partition(".")[0]
        if library == "normdiag":
            raise
        raise LoadError(
            f"{library} cannot be imported: {error}",
            "without it only saved reports can be looked at: `normdiag render`, `normdiag check`",
        ) from error
