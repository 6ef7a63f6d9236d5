"""What the commands that run models share: from targets and options to a report or a comparison."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum

from normdiag.cli.library_output import redirect_library_output
from normdiag.cli.progress_bar import show_progress
from normdiag.cli.timing import report_timings
from normdiag.errors import LoadError
from normdiag.options import Options
from normdiag.progress import NoProgress, Progress
from normdiag.report.compare.comparison import Comparison
from normdiag.report.report import Report

# Of glibc's malloc.h. By default glibc raises the threshold with every large block that is freed:
# after a forward it may hold some hundred MB that nothing uses.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_TRIM_THRESHOLD = 32 << 20
_MMAP_THRESHOLD = 1 << 20


class Work(StrEnum):
    """The function of the pipeline to run."""

    INSPECT = "inspect"
    TRACE = "trace"


def run_pipeline(work: Work, target: str, options: Options, *, verbose: bool) -> Report:
    """Run the pipeline on `target`; whatever is printed meanwhile goes to stderr."""
    with _prepare_run(verbose=verbose) as progress:
        from normdiag import pipeline

        run = pipeline.trace if work is Work.TRACE else pipeline.inspect
        return run(target, options=options, progress=progress)


def run_comparison(
    pair: tuple[str, str], options: Options, second: Options, *, verbose: bool
) -> Comparison:
    """Compare both likewise; `second` are the options of the second."""
    with _prepare_run(verbose=verbose) as progress:
        from normdiag import pipeline

        return pipeline.compare(*pair, options=options, second=second, progress=progress)


def trim_malloc() -> None:
    """Make glibc return freed blocks to the system at once; with another C library do nothing."""
    if sys.platform != "linux":
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _MMAP_THRESHOLD)
        mallopt(_M_TRIM_THRESHOLD, _TRIM_THRESHOLD)


@contextmanager
def _prepare_run(*, verbose: bool) -> Iterator[Progress]:
    trim_malloc()
    with (
        redirect_library_output(verbose=verbose),
        _require_libraries(),
        show_progress() as bar,
        report_timings(bar or NoProgress(), verbose=verbose) as progress,
    ):
        yield progress


@contextmanager
def _require_libraries() -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        library = (error.name or "torch").partition(".")[0]
        if library == "normdiag":
            raise
        raise LoadError(
            f"{library} cannot be imported: {error}",
            "install it; `normdiag render` and `normdiag check` of saved reports work without it",
        ) from error
