"""`normdiag check TARGET_OR_REPORT...`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import typer

from normdiag.cli.options import CheckGating, Judging, Observation, Output, TargetsOrReports
from normdiag.errors import UsageError

if TYPE_CHECKING:
    from normdiag.cli.option_groups import OptionValues
    from normdiag.cli.target_checks import TargetChecker


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
    from normdiag.cli.exit_codes import exit_on_check
    from normdiag.cli.output import deliver_report, deliver_series, require_writable
    from normdiag.report.series import Series

    require_writable(output)
    _refuse_options_for_reports(targets, observation)
    checker = _build_checker(context, targets, observation, judging, gating, output)
    checked = (
        checker.check_target(targets[0]) if len(targets) == 1 else checker.check_targets(targets)
    )
    if isinstance(checked, Series):
        deliver_series(checked, output)
        raise typer.Exit(checked.exit_code)
    deliver_report(checked, output)
    exit_on_check(checked)


def _build_checker(
    context: typer.Context,
    targets: Sequence[str],
    observation: OptionValues,
    judging: OptionValues,
    gating: OptionValues,
    output: Output,
) -> TargetChecker:
    """Read settings and baselines; options of a run only where a target is run."""
    from normdiag.cli.command_classes import command_line
    from normdiag.cli.gate import build_gate, load_baselines
    from normdiag.cli.merge_options import build_group, build_judging, build_options, load_settings
    from normdiag.cli.output import writes_text
    from normdiag.cli.target_checks import TargetChecker
    from normdiag.gate_options import CheckOptions

    settings = load_settings()
    rules = build_judging(judging, settings, verbose=output.verbose)
    gate_options = build_group(CheckOptions, gating, settings, fail_on="error")
    options = None
    if not all(map(_is_report, targets)):
        values = {**observation, **judging}
        options = build_options(values, settings, command=command_line(context))
    return TargetChecker(
        options=options,
        judging=rules,
        gate=build_gate(gate_options, rules.ignore, settings.ignore_reasons),
        baselines=load_baselines(gate_options.baseline, rules),
        verbose=output.verbose,
        quiet=output.quiet,
        announces=not (output.quiet or writes_text(output)),
    )


def _is_report(target: str) -> bool:
    return target.endswith(".json")


def _refuse_options_for_reports(targets: Iterable[str], observation: OptionValues) -> None:
    report = next(filter(_is_report, targets), None)
    if report is not None and observation:
        raise UsageError(
            f"{report!r} is a saved report: it is not loaded, run or measured again",
            "drop the options for loading, inputs and measuring, or give the target itself",
        )
