"""`normdiag check TARGET_OR_REPORT...`."""

from __future__ import annotations

from collections.abc import Iterable

import typer

from normdiag.cli.options import Gating, Judging, Observing, Output, TargetsOrReports
from normdiag.errors import UsageError


def check(
    context: typer.Context,
    targets: TargetsOrReports,
    observing: Observing,
    judging: Judging,
    gating: Gating,
    output: Output,
) -> None:
    """Judge models or saved reports; exit 1 on an error.

    For CI. A model is inspected first; a saved report is judged afresh, by the rules and
    thresholds of now, which needs no torch. Several are put in one table, in natural order, and
    the worst exit code counts; one that cannot be loaded does not stop the others.

    \b
    normdiag check org/name --fail-on warning
    normdiag check report.json --select ND1,ND2 --require-complete
    normdiag check ./checkpoint --baseline report.json --json new.json
    normdiag check ./checkpoint --max measurements.growth.total=50
    normdiag check ckpt-*/ --json checkpoints.json
    """
    from normdiag.cli import request
    from normdiag.cli.checking import Checking
    from normdiag.cli.gate import before, gate
    from normdiag.cli.output import deliver, deliver_series, require_writable
    from normdiag.cli.verdict import leave_checked
    from normdiag.report.series import Series

    require_writable(output)
    _refuse_to_run_reports(targets, observing)
    settings = request.settings(judging, output.verbose)
    work = Checking(
        observing, settings, context, gate(gating, settings), before(gating.baseline, settings)
    )
    found = work.one(targets[0]) if len(targets) == 1 else work.several(targets)
    if isinstance(found, Series):
        deliver_series(found, output)
        raise typer.Exit(found.exit_code)
    deliver(found, output)
    leave_checked(found)


def _refuse_to_run_reports(targets: Iterable[str], observing: Observing) -> None:
    report = next((target for target in targets if target.endswith(".json")), None)
    if report is not None and observing != Observing():
        raise UsageError(
            f"{report!r} is a saved report: nothing is loaded, run or measured again",
            "drop the options that say how, or give the target itself",
        )
