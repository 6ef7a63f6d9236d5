"""Where a report goes: stdout or a file, JSON beside it, and one line about it on stderr."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from rich.console import Console

from normdiag.cli.messages import say
from normdiag.cli.options import Output
from normdiag.cli.stdout import stdout
from normdiag.errors import UsageError
from normdiag.findings import Severity
from normdiag.render.formats import FORMATS
from normdiag.render.interface import Options
from normdiag.report import atomic
from normdiag.report.report import Report

FILE_WIDTH = 80
NOUNS: dict[Severity, str] = {"error": "error", "warning": "warning", "info": "note"}


def require_writable(output: Output) -> None:
    """Refuse a file that cannot be written before the work is done whose result goes there."""
    for path in _files(output):
        if path.is_dir():
            raise UsageError(f"cannot write {str(path)!r}: it is a directory", "give a file name")
        if not path.absolute().parent.is_dir():
            raise UsageError(
                f"cannot write {str(path)!r}: its directory does not exist", "make it first"
            )


def deliver(report: Report, output: Output, sites: Iterable[str] = ()) -> None:
    """Write `report` as `output` asks, then say on stderr what came out.

    A report of `trace` is shown as such. The JSON comes first, so that a reader who closes the
    pipe early (`| head`) does not lose it.
    """
    options = Options(all_rows=output.all_rows, sites=tuple(sites))
    renderer = FORMATS["trace" if report.trace else "inspect"][output.format]
    if output.json is not None:
        report.save(output.json)
    if output.output is not None:
        buffer = io.StringIO()
        renderer(report, Console(file=buffer, width=FILE_WIDTH), options)
        atomic.write(output.output, buffer.getvalue())
    else:
        renderer(report, stdout(), options)
    say("; ".join([_counts(report), *(f"{path} written" for path in _files(output))]))


def _files(output: Output) -> tuple[Path, ...]:
    return tuple(path for path in (output.output, output.json) if path is not None)


def _counts(report: Report) -> str:
    found = Counter(finding.severity for finding in report.findings)
    counts = [_many(found[severity], noun) for severity, noun in NOUNS.items() if found[severity]]
    skipped = len(report.rules.skipped)
    said = ", ".join(counts) or "no findings"
    return f"{said}; {_many(skipped, 'rule')} skipped" if skipped else said


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
