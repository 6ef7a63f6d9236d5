"""Where a report goes: stdout or a file, JSON beside it, and one line about it on stderr."""

from __future__ import annotations

import io
import os
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from normdiag.cli.messages import say
from normdiag.cli.options import Format, Output
from normdiag.cli.stdout import stdout
from normdiag.errors import UsageError
from normdiag.render.escape import visible
from normdiag.render.formats import COMPARISONS, FORMATS, SERIES
from normdiag.render.interface import Options, RulePage
from normdiag.render.severity import tally
from normdiag.render.units import count
from normdiag.render.verdict import headline, outcome
from normdiag.report import atomic
from normdiag.report.compare.comparison import Comparison
from normdiag.report.report import Report
from normdiag.report.series import Entry, Series

FILE_WIDTH = 80


def require_writable(output: Output) -> None:
    """Refuse a file that cannot be written before the work is done whose result goes there."""
    for path in _files(output):
        if path.is_dir():
            raise UsageError(f"cannot write {str(path)!r}: it is a directory", "give a file name")
        if not path.absolute().parent.is_dir():
            raise UsageError(
                f"cannot write {str(path)!r}: its directory does not exist", "make it first"
            )
        place = path if path.exists() and not path.is_file() else path.resolve().parent
        if not os.access(place, os.W_OK):
            raise UsageError(f"cannot write {str(path)!r}: no permission", "give another folder")
    if output.json is not None and output.json == output.output:
        raise UsageError(f"--json and --output are both {str(output.json)!r}", "give two files")


def deliver(report: Report, output: Output, sites: Iterable[str] = ()) -> None:
    """Write `report` as `output` asks, then say on stderr what came out.

    A report of `trace` is shown as such. The JSON comes first, so that a reader who closes the
    pipe early (`| head`) does not lose it.
    """
    options = replace(_options(output), sites=tuple(sites))
    renderer = FORMATS["trace" if report.trace else "inspect"][output.format]
    if output.json is not None:
        report.save(output.json)
    _write(output, lambda console: renderer(report, console, options))
    _say(headline(report) or _counts(report), output)


def deliver_series(series: Series, output: Output) -> None:
    """Write the reports of several targets likewise."""
    if output.json is not None:
        series.save(output.json)
    options = _options(output)
    _write(output, lambda console: SERIES[output.format](series, console, options))
    outcomes = Counter(_outcome(entry) for entry in series.reports)
    counts = ", ".join(f"{many} {outcome}" for outcome, many in outcomes.items())
    _say(f"{count(len(series.reports), 'target')}: {counts}", output)


def require_comparable(output: Output) -> None:
    """Refuse a format that a comparison has not, before anything is loaded."""
    if output.format not in COMPARISONS:
        raise UsageError(
            f"a comparison cannot be written as {output.format}",
            f"there are {', '.join(COMPARISONS)}",
        )


def deliver_comparison(comparison: Comparison, output: Output) -> None:
    """Write a comparison likewise."""
    if output.json is not None:
        comparison.save(output.json)
    options = _options(output)
    _write(output, lambda console: COMPARISONS[output.format](comparison, console, options))
    changed = Counter(change.state for change in comparison.changes)
    counts = [count(len(comparison.differences), "difference")]
    counts += [f"{count(many, 'finding')} {state}" for state, many in changed.items()]
    _say(", ".join(counts), output)


def _options(output: Output) -> Options:
    pages = _pages() if output.format is Format.SARIF else {}
    return Options(all_rows=output.all_rows, pages=pages)


def _pages() -> dict[str, RulePage]:
    from normdiag.rules import page, registry

    return {
        rule.code: RulePage(name=rule.name, summary=rule.summary, page=page.page(rule))
        for rule in registry.RULES
    }


def _write(output: Output, render: Callable[[Console], None]) -> None:
    if output.output is None:
        render(stdout())
        return
    buffer = io.StringIO()
    render(Console(file=buffer, width=FILE_WIDTH))
    atomic.write(output.output, buffer.getvalue())


def _say(what: str, output: Output) -> None:
    say("; ".join([what, *(f"{visible(str(path))} written" for path in _files(output))]))


def _outcome(entry: Entry) -> str:
    if entry.report is None:
        return "without a report"
    return outcome(entry.report.check) if entry.report.check else "not checked"


def _files(output: Output) -> tuple[Path, ...]:
    return tuple(path for path in (output.output, output.json) if path is not None)


def _counts(report: Report) -> str:
    said = tally(report.findings) or "no findings"
    skipped = len(report.rules.skipped)
    return f"{said}; {count(skipped, 'rule')} skipped" if skipped else said
