"""`normdiag compare A B`."""

from __future__ import annotations

import typer

from normdiag.cli.options import Gating, Judging, Observation, Output, SecondTarget, TargetOrReport
from normdiag.errors import UsageError


def compare(
    context: typer.Context,
    a: TargetOrReport,
    b: TargetOrReport,
    observation: Observation,
    second: SecondTarget,
    judging: Judging,
    gating: Gating,
    output: Output,
) -> None:
    """Compare two models, and find where their residual streams diverge.

    Two models are run on the same inputs, one after the other, and compared value by value; saved
    reports by the numbers in them, without torch. Norms and residual adds are matched by name or,
    in ported code, by their place in the data flow. --fail-on error: differences that two copies
    of one model cannot have (structure, epsilon, swapped layers), and error findings that are new
    or worse; warning: other values too. --measure is stream,norms unless stated.

    \b
    normdiag compare ./original ./converted
    normdiag compare ./checkpoint ./checkpoint --b-dtype float16
    normdiag compare org/base org/base --b-adapter ./lora
    normdiag compare step1000.json step2000.json -f markdown
    """
    from normdiag.cli.exit_codes import exit_on_comparison
    from normdiag.cli.merge_options import (
        build_gate_options,
        merge_options,
        replace_for_second_target,
    )
    from normdiag.cli.output import deliver_comparison, require_comparable, require_writable
    from normdiag.cli.run_pipeline import run_comparison
    from normdiag.measures import ONE_PASS_MEASURES

    require_writable(output)
    require_comparable(output)
    if observation or second:
        _refuse_two_reports(a, b)
    options = merge_options(
        context, {**observation, **judging}, verbose=output.verbose, measure=ONE_PASS_MEASURES
    )
    second_options = replace_for_second_target(options, second)
    comparison = run_comparison(
        (a, b), options, second_options, verbose=output.verbose, quiet=output.quiet
    )
    deliver_comparison(comparison, output)
    exit_on_comparison(comparison, build_gate_options(gating))


def _refuse_two_reports(a: str, b: str) -> None:
    if a.endswith(".json") and b.endswith(".json"):
        raise UsageError(
            "both are saved reports: they are not loaded, run or measured again",
            "drop the options for loading, inputs and measuring, or give the targets themselves",
        )
