"""Run the pipeline for a command: progress, timings, redirected prints, missing libraries."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from enum import StrEnum

from normdiag.cli.library_output import redirect_library_output
from normdiag.cli.progress_bar import show_progress
from normdiag.cli.timing import report_timings
from normdiag.cli.trim_malloc import trim_malloc
from normdiag.errors import LoadError
from normdiag.options import Options
from normdiag.progress import NoProgress, Progress
from normdiag.report.compare.comparison import Comparison
from normdiag.report.report import Report


class Work(StrEnum):
    """The function of the pipeline to run."""

    INSPECT = "inspect"
    TRACE = "trace"


def run_pipeline(
    work: Work, target: str, options: Options, *, verbose: bool, quiet: bool = False
) -> Report:
    """Run the pipeline on `target`; whatever is printed meanwhile goes to stderr."""
    with _prepare_run(verbose=verbose, quiet=quiet) as progress:
        from normdiag import pipeline

        run = pipeline.trace if work is Work.TRACE else pipeline.inspect
        return run(target, options=options, progress=progress)


def run_comparison(
    pair: tuple[str, str], options: Options, second: Options, *, verbose: bool, quiet: bool = False
) -> Comparison:
    """Compare two targets in the same way; `second` are the options of the second."""
    with _prepare_run(verbose=verbose, quiet=quiet) as progress:
        from normdiag import pipeline

        return pipeline.compare(*pair, options=options, second=second, progress=progress)


@contextmanager
def _prepare_run(*, verbose: bool, quiet: bool) -> Iterator[Progress]:
    trim_malloc()
    with (
        redirect_library_output(verbose=verbose),
        _require_libraries(),
        nullcontext() if quiet else show_progress() as bar,
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
        first = _first_cause(error)
        if not isinstance(first, ImportError):
            from normdiag.loading.describe_exception import describe_exception

            raise LoadError(
                f"a library is installed and cannot be imported: {describe_exception(first)}",
                "packages that belong together may be of different builds, such as torchvision "
                f"for CUDA beside torch for CPU; python said: {error}",
            ) from error
        raise LoadError(
            f"{library} cannot be imported: {error}",
            "install it; `normdiag render` and `normdiag check` of saved reports work without it",
        ) from error


def _first_cause(error: BaseException) -> BaseException:
    while error.__cause__ is not None:
        error = error.__cause__
    return error
