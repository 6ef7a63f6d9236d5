"""`normdiag trace TARGET`."""

from __future__ import annotations

import typer

from normdiag.cli.options import FailOn, Judging, Observing, Output, Sites, Target
from normdiag.errors import UsageError


def trace(
    context: typer.Context,
    target: Target,
    observing: Observing,
    judging: Judging,
    output: Output,
    site: Sites = None,
) -> None:
    """Show texts token by token, at every add and norm.

    Per token: the norm of the stream, the update ratio, and the variance that each norm sees. Says
    which special tokens were added and names the massive ones. --format csv gives one row per
    token and site. Unless --measure asks for more, stream and norms are measured.

    \b
    normdiag trace org/name --text "The cat sat on the mat."
    normdiag trace model.gguf --text "one" --text "two" --no-special-tokens
    echo "from a pipe" | normdiag trace ./checkpoint --text -
    normdiag trace ./checkpoint --ids "1,2,3" --site model.layers.3/add#0
    """
    from normdiag.cli import request
    from normdiag.cli.observe import Work, observe
    from normdiag.cli.output import deliver, require_writable
    from normdiag.cli.verdict import leave

    if observing.loading.weights_only:
        raise UsageError("--weights-only runs nothing, so there is nothing to trace", "drop it")
    if observing.loading.structure_only:
        raise UsageError("--structure-only has no values, so there is nothing to trace", "drop it")
    require_writable(output)
    settings = request.measuring_quickly(request.settings(judging, output.verbose), observing)
    report = observe(Work.TRACE, target, observing, settings, context)
    deliver(report, output, site or ())
    leave(report, judging.fail_on or FailOn.NEVER, judging.require_complete)
