"""`normdiag render REPORT`."""

from __future__ import annotations

from normdiag.cli.options import Output, ReportFile, Sites
from normdiag.errors import UsageError


def render(report: ReportFile, output: Output, site: Sites = None) -> None:
    """Show a saved report in another format.

    The findings are those of the file: nothing is judged again, and torch is not needed. A report
    of trace gives the tables token by token, one of inspect or check the tables of inspect, a file
    of several reports one table, and one of compare the comparison.

    \b
    normdiag render report.json
    normdiag render report.json --format csv --output report.csv
    normdiag render report.json --format sarif --output report.sarif
    """
    from normdiag.cli.output import (
        deliver_comparison,
        deliver_report,
        deliver_series,
        require_comparable,
        require_writable,
    )
    from normdiag.report.compare.comparison import Comparison
    from normdiag.report.report import Report
    from normdiag.report.saved import load_saved
    from normdiag.report.series import Series

    require_writable(output)
    saved = load_saved(report)
    if site and not (isinstance(saved, Report) and saved.trace):
        raise UsageError(
            f"invalid option: --site shows numbers of single tokens, which {report!r} has not",
            "drop it, or save a report of `normdiag trace`",
        )
    if isinstance(saved, Series):
        deliver_series(saved, output)
    elif isinstance(saved, Comparison):
        require_comparable(output)
        deliver_comparison(saved, output)
    else:
        deliver_report(saved, output, site or ())
