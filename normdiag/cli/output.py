"""Write a report to stdout or a file, as JSON to a second file, and a summary line to stderr."""

from __future__ import annotations

import io
import os
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from normdiag.cli.messages import write_message
from normdiag.cli.options import Output
from normdiag.cli.report_console import open_report_console, write_paged
from normdiag.errors import UsageError
from normdiag.number_text import format_count
from normdiag.render.escape import escape_text
from normdiag.render.formats import COMPARISONS, FORMATS, SERIES
from normdiag.render.html.extra import require_libraries
from normdiag.render.interface import Options, RulePage
from normdiag.render.severity import count_by_severity
from normdiag.render.verdict import format_headline, name_outcome
from normdiag.report import atomic
from normdiag.report.compare.comparison import Comparison
from normdiag.report.report import Report
from normdiag.report.series import Series, SeriesEntry

FILE_WIDTH = 80


def require_writable(output: Output) -> None:
    """Refuse an output file that cannot be written, and options that contradict each other."""
    for one, other in (("color", "no_color"), ("quiet", "verbose")):
        if getattr(output, one) and getattr(output, other):
            raise UsageError(
                f"--{one} and --{other.replace('_', '-')} contradict each other",
                "give one of them",
            )
    for path in _output_files(output):
        if path.is_dir():
            raise UsageError(f"cannot write {str(path)!r}: it is a directory", "give a file name")
        if not path.absolute().parent.is_dir():
            raise UsageError(
                f"cannot write {str(path)!r}: its directory does not exist",
                "create the directory first",
            )
        place = (
            path if path.exists() and not path.is_file() else Path(os.path.realpath(path)).parent
        )
        if not os.access(place, os.W_OK):
            raise UsageError(
                f"cannot write {str(path)!r}: no permission", "give a path that you may write to"
            )
    files = _output_files(output)
    if len(set(files)) < len(files):
        flags = sorted(f for f, path in _name_files(output).items() if files.count(path) > 1)
        raise UsageError(
            f"{' and '.join(flags)} are both {str(_name_files(output)[flags[0]])!r}",
            "give different files",
        )
    if output.html is not None or output.format == "html":
        require_libraries()


def deliver_report(report: Report, output: Output, sites: Iterable[str] = ()) -> None:
    """Write `report` as `output` asks, and a summary line to stderr unless its text is on stdout.

    A report with token numbers is rendered as that of `trace`. The JSON is written first, so that
    it is complete where the reader closes the pipe early (`| head`).
    """
    options = replace(_render_options(output), sites=tuple(sites))
    renderer = FORMATS["trace" if report.trace else "inspect"][output.format]
    if output.json is not None:
        report.save(output.json)
    page = FORMATS["inspect"]["html"]
    _write_page(output, lambda console: page(report, console, options))
    _write_report(output, lambda console: renderer(report, console, options))
    _write_summary(format_headline(report) or _count_findings(report), output)


def deliver_series(series: Series, output: Output) -> None:
    """Write the reports of several targets."""
    if output.json is not None:
        series.save(output.json)
    options = _render_options(output)
    _write_page(output, lambda console: SERIES["html"](series, console, options))
    _write_report(output, lambda console: SERIES[output.format](series, console, options))
    outcomes = Counter(_describe_outcome(entry) for entry in series.reports)
    counts = ", ".join(f"{many} {outcome}" for outcome, many in outcomes.items())
    _write_summary(f"{format_count(len(series.reports), 'target')}: {counts}", output)


def writes_text(output: Output) -> bool:
    """Whether the text of the reports goes to stdout, and their verdicts with it."""
    return output.format == "text" and output.output is None


def require_comparable(output: Output) -> None:
    """Refuse a format that no comparison has, before a model is loaded."""
    if output.format not in COMPARISONS:
        raise UsageError(
            f"invalid option: a comparison cannot be written as --format {output.format}",
            f"available formats: {', '.join(COMPARISONS)}",
        )


def deliver_comparison(comparison: Comparison, output: Output) -> None:
    """Write a comparison."""
    if output.json is not None:
        comparison.save(output.json)
    options = _render_options(output)
    _write_page(output, lambda console: COMPARISONS["html"](comparison, console, options))
    _write_report(output, lambda console: COMPARISONS[output.format](comparison, console, options))
    changed = Counter(change.state for change in comparison.changes)
    counts = [format_count(len(comparison.differences), "difference")]
    counts += [f"{format_count(many, 'finding')} {state}" for state, many in changed.items()]
    _write_summary(", ".join(counts), output)


def _render_options(output: Output) -> Options:
    pages = _rule_pages() if output.format == "sarif" else {}
    is_whole = output.full or output.all_rows or output.output is not None
    return Options(all_rows=output.all_rows, first_screen=not is_whole, pages=pages)


def _rule_pages() -> dict[str, RulePage]:
    from normdiag.rules import page, registry

    return {
        rule.code: RulePage(name=rule.name, summary=rule.summary, page=page.format_rule_page(rule))
        for rule in registry.RULES
    }


def _write_report(output: Output, render: Callable[[Console], None]) -> None:
    has_color = output.color if output.color or output.no_color else None
    if output.output is None:
        if not output.quiet:
            console = open_report_console(has_color=has_color)
            if output.format == "text":
                write_paged(render, console)
            else:
                render(console)
        return
    _write_file(output.output, render)


def _write_page(output: Output, render: Callable[[Console], None]) -> None:
    if output.html is not None:
        _write_file(output.html, render)


def _write_file(path: Path, render: Callable[[Console], None]) -> None:
    buffer = io.StringIO()
    # said here, since $FORCE_COLOR and its like would have rich take the file for a terminal
    render(Console(file=buffer, width=FILE_WIDTH, force_terminal=False, color_system=None))
    atomic.write_atomically(path, buffer.getvalue())


def _write_summary(what: str, output: Output) -> None:
    """Say on stderr what was found, unless its text is on stdout, and which files were written."""
    files = (f"{escape_text(str(path))} written" for path in _output_files(output))
    parts = [*files] if writes_text(output) else [what, *files]
    if parts and not output.quiet:
        write_message("; ".join(parts))


def _describe_outcome(entry: SeriesEntry) -> str:
    if entry.report is None:
        return "without a report"
    return name_outcome(entry.report.check) if entry.report.check else "not checked"


def _output_files(output: Output) -> tuple[Path, ...]:
    return tuple(_name_files(output).values())


def _name_files(output: Output) -> dict[str, Path]:
    """The files to write by their options."""
    named = {"--output": output.output, "--json": output.json, "--html": output.html}
    return {flag: path for flag, path in named.items() if path is not None}


def _count_findings(report: Report) -> str:
    counts = count_by_severity(report.findings) or "no findings"
    skipped = len(report.rules.skipped)
    return f"{counts}; {format_count(skipped, 'rule')} skipped" if skipped else counts
