"""`normdiag check TARGET_OR_REPORT...`."""

from __future__ import annotations

import typer

from normdiag.cli.options import CheckGating, Judging, Observation, Output, TargetsOrReports
from normdiag.errors import UsageError


def check(
    context: typer.Context,
    targets: TargetsOrReports,
    observation: Observation,
    judging: Judging,
    gating: CheckGating,
    output: Output,
) -> None:
    """Judge models or saved reports; exit 1 on an error.

    For CI. A model is inspected first; a saved report is judged again by the current rules and
    thresholds, without torch. Several targets give one table, in natural order, and the worst
    exit code; one that cannot be loaded does not stop the others.

    \b
    normdiag check org/name --fail-on warning
    normdiag check report.json --select ND1,ND2 --require-complete
    normdiag check ./checkpoint --baseline report.json --json new.json
    normdiag check ./checkpoint --max measurements.growth.total=50
    normdiag check ckpt-*/ --json checkpoints.json
    """
    from normdiag.cli.command_classes import command_line
    from normdiag.cli.exit_codes import exit_on_check
    from normdiag.cli.gate import build_gate, load_baselines
    from normdiag.cli.merge_options import (
        build_group,
        build_judging,
        build_options,
        load_settings,
    )
    from normdiag.cli.output import deliver_report, deliver_series, require_writable
    from normdiag.cli.target_checks import TargetChecker
    from normdiag.gate_options import CheckOptions
    from normdiag.report.series import Series

    require_writable(output)
    reports = [target for target in targets if target.endswith(".json")]
    if reports and observation:
        raise UsageError(
            f"{reports[0]!r} is a saved report: it is not loaded, run or measured again",
            "drop the options for loading, inputs and measuring, or give the target itself",
        )
    settings = load_settings()
    rules = build_judging(judging, settings, verbose=output.verbose)
    options = build_group(CheckOptions, gating, settings, fail_on="error")
    checker = TargetChecker(
        options=None
        if len(reports) == len(targets)
        else build_options({**observation, **judging}, settings, command=command_line(context)),
        judging=rules,
        gate=build_gate(options, rules.ignore, settings.ignore_reasons),
        baselines=load_baselines(options.baseline, rules),
        verbose=output.verbose,
    )
    checked = (
        checker.check_target(targets[0]) if len(targets) == 1 else checker.check_targets(targets)
    )
    if isinstance(checked, Series):
        deliver_series(checked, output)
        raise typer.Exit(checked.exit_code)
    deliver_report(checked, output)
    exit_on_check(checked)
