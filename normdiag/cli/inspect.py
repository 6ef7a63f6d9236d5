"""`normdiag inspect TARGET`."""

from __future__ import annotations

import typer

from normdiag.cli.options import FailOn, Judging, Observing, Output, Target


def inspect(
    context: typer.Context,
    target: Target,
    observing: Observing,
    judging: Judging,
    output: Output,
) -> None:
    """Diagnose the norms and the residual stream of a model.

    The tables are read from top to bottom: what was loaded, how its stacks are normalised, the
    stream layer by layer, the norms to look at first, the findings, and what was not understood.

    \b
    normdiag inspect org/name
    normdiag inspect ./checkpoint --dtype bfloat16 --json report.json
    normdiag inspect model.gguf --select ND3 --all
    normdiag inspect package.module:factory --inputs batch.safetensors
    """
    from normdiag.cli import request
    from normdiag.cli.observe import Work, observe
    from normdiag.cli.output import deliver, require_writable
    from normdiag.cli.verdict import leave

    require_writable(output)
    settings = request.settings(judging, output.verbose)
    report = observe(Work.INSPECT, target, observing, settings, context)
    deliver(report, output)
    leave(report, judging.fail_on or FailOn.NEVER, judging.require_complete)
