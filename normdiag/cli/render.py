"""`normdiag render REPORT`."""

from __future__ import annotations

from normdiag.cli.options import Output, ReportFile, Sites


def render(report: ReportFile, output: Output, site: Sites = None) -> None:
    """Show a saved report in another format.

    It is shown as it was judged when it was saved, which needs no torch. A report of trace gives
    its tables token by token, one of inspect or check those of inspect.

    \b
    normdiag render report.json
    normdiag render report.json --format csv --output report.csv
    """
    from normdiag.cli.output import deliver, require_writable
    from normdiag.report.report import load_report

    require_writable(output)
    deliver(load_report(report), output, site or ())
