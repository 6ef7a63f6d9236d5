"""`normdiag render REPORT`."""

from __future__ import annotations

from normdiag.cli.options import Output, ReportFile, Sites


def render(report: ReportFile, output: Output, site: Sites = None) -> None:
    """Show a saved report in another format.

    It is shown as it was judged when it was saved, which needs no torch. A report of trace gives
    its tables token by token, one of inspect or check those of inspect; a file of several reports
    the table of them all; one of compare the comparison.

    \b
    normdiag render report.json
    normdiag render report.json --format csv --output report.csv
    normdiag render report.json --format sarif --output report.sarif
    """
    from normdiag.cli.output import (
        deliver,
        deliver_comparison,
        deliver_series,
        require_comparable,
        require_writable,
    )
    from normdiag.report.compare.comparison import Comparison
    from normdiag.report.saved import load
    from normdiag.report.series import Series

    require_writable(output)
    saved = load(report)
    if isinstance(saved, Series):
        deliver_series(saved, output)
    elif isinstance(saved, Comparison):
        require_comparable(output)
        deliver_comparison(saved, output)
    else:
        deliver(saved, output, site or ())
