"""`normdiag trace TARGET`."""

from __future__ import annotations

import typer

from normdiag.cli.options import Gating, Judging, Observation, Output, Sites, Target
from normdiag.errors import UsageError


def trace(
    context: typer.Context,
    target: Target,
    observation: Observation,
    judging: Judging,
    gating: Gating,
    output: Output,
    site: Sites = None,
) -> None:
    """Show the numbers of every token at every residual add and norm.

    Per token: the norm of the stream, the update ratio, and the variance at each norm. Special
    tokens that were added and tokens with massive activations are named. --format csv gives one
    row per token and site. --measure is stream,norms unless stated.

    \b
    normdiag trace org/name --text "The cat sat on the mat."
    normdiag trace model.gguf --text "one" --text "two" --no-special-tokens
    echo "from a pipe" | normdiag trace ./checkpoint --text -
    normdiag trace ./checkpoint --ids "1,2,3" --site model.layers.3/add#0
    """
    from normdiag.cli.exit_codes import exit_on_findings
    from normdiag.cli.merge_options import build_gate_options, merge_options
    from normdiag.cli.output import deliver_report, require_writable
    from normdiag.cli.run_pipeline import Work, run_pipeline
    from normdiag.measures import ONE_PASS_MEASURES

    for name in ("weights_only", "structure_only"):
        if name in observation:
            raise UsageError(
                f"invalid option: --{name.replace('_', '-')} computes no values to trace",
                "drop it, or use `normdiag inspect`",
            )
    require_writable(output)
    options = merge_options(
        context, {**observation, **judging}, verbose=output.verbose, measure=ONE_PASS_MEASURES
    )
    report = run_pipeline(Work.TRACE, target, options, verbose=output.verbose, quiet=output.quiet)
    deliver_report(report, output, site or ())
    exit_on_findings(report, build_gate_options(gating))
