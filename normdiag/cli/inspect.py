"""`normdiag inspect TARGET`."""

from __future__ import annotations

import typer

from normdiag.cli.options import Gating, Judging, Observation, Output, Target


def inspect(
    context: typer.Context,
    target: Target,
    observation: Observation,
    judging: Judging,
    gating: Gating,
    output: Output,
) -> None:
    """Diagnose the norms and the residual stream of a model.

    The report states what was loaded, the placement of norms in each stack, the stream layer by
    layer, the most conspicuous norms, the findings, and what was not understood.

    \b
    normdiag inspect org/name
    normdiag inspect ./checkpoint --dtype bfloat16 --json report.json
    normdiag inspect model.gguf --select ND3 --all
    normdiag inspect package.module:factory --inputs batch.safetensors
    """
    from normdiag.cli.exit_codes import exit_on_findings
    from normdiag.cli.merge_options import build_gate_options, merge_options
    from normdiag.cli.output import deliver_report, require_writable
    from normdiag.cli.run_pipeline import Work, run_pipeline

    require_writable(output)
    options = merge_options(context, {**observation, **judging}, verbose=output.verbose)
    report = run_pipeline(Work.INSPECT, target, options, verbose=output.verbose, quiet=output.quiet)
    deliver_report(report, output)
    exit_on_findings(report, build_gate_options(gating))
