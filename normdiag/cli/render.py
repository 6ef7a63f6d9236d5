"""`normdiag render REPORT`."""

from __future__ import annotations

from normdiag.cli.options import Output, ReportFile, Sites


def render(report: ReportFile, output: Output, site: Sites = None) -> None:
    """Show a saved report in another format.

    It is shown as it was judged when it was saved, which needs no torch. A report of trace gives
    its tables token by token, one of inspect or check those of inspect; a file of several reports
    the table of them all.

    \b
    normdiag render report.json
    normdiag render report.json --format csv --output report.csv
    normdiag render report.json --format sarif --output report.sarif
    """
    from normdiag.cli.output import deliver, deliver_series, require_writable
    from normdiag.report.series import Series, load

    require_writable(output)
    saved = load(report)
    if isinstance(saved, Series):
        deliver_series(saved, output)
    else:
        deliver(saved, output, site or ())
