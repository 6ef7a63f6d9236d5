"""`normdiag check TARGET_OR_REPORT`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from normdiag.cli.options import FailOn, Judging, Observing, Output, TargetOrReport
from normdiag.errors import UsageError

if TYPE_CHECKING:
    from normdiag.config import Settings
    from normdiag.report.report import Report


def check(
    context: typer.Context,
    target: TargetOrReport,
    observing: Observing,
    judging: Judging,
    output: Output,
) -> None:
    """Judge a model or a saved report; exit 1 on an error.

    For CI. A model is inspected first; a saved report is judged afresh, by the rules and
    thresholds of now, which needs no torch.

    \b
    normdiag check org/name --fail-on warning
    normdiag check report.json --select ND1,ND2 --require-complete
    """
    from normdiag.cli import request
    from normdiag.cli.observe import Work, observe
    from normdiag.cli.output import deliver, require_writable
    from normdiag.cli.verdict import leave

    require_writable(output)
    settings = request.settings(judging, output.verbose)
    if target.endswith(".json"):
        report = _judged_afresh(target, observing, settings)
    else:
        report = observe(Work.INSPECT, target, observing, settings, context)
    deliver(report, output)
    leave(report, FailOn(settings.fail_on or FailOn.ERROR), bool(settings.require_complete))


def _judged_afresh(path: str, observing: Observing, settings: Settings) -> Report:
    if observing != Observing():
        raise UsageError(
            f"{path!r} is a saved report: nothing is loaded, run or measured again",
            "drop the options that say how, or give the target itself",
        )
    from normdiag.report.report import Report, load_report
    from normdiag.rules.engine import judge

    evidence = load_report(path).to_evidence()
    judgement = judge(
        evidence,
        select=settings.select or (),
        ignore=settings.ignore,
        thresholds=settings.thresholds,
    )
    return Report.from_evidence(evidence, judgement)
