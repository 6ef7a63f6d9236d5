"""What the norms are blind to, a line for each kind."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType

from normdiag.evidence.invariances import Centring, KindInvariance, ScaleFree
from normdiag.render.escape import visible
from normdiag.render.few import named
from normdiag.render.page import Page, facts, heading, prose
from normdiag.render.units import count, number, percent, times
from normdiag.report.report import Report

_BLIND = 1e-3
"""A relative change below this is none, epsilon and rounding apart."""
_FAR = 10.0
"""Times chance from which on LayerNorm and RMSNorm are not the same."""
_NAMED = 3


def section(report: Report, page: Page) -> Iterator[RenderableType]:
    """Yield what each kind of norm is blind to, and what follows from it."""
    seen = report.measurements.invariances
    if seen is None or not (seen.kinds or seen.scale_free):
        return
    yield heading("What the norms are blind to")
    yield facts((visible(kind), _kind(found)) for kind, found in seen.kinds.items())
    for centring in seen.centring:
        yield prose(_centring(centring))
    if seen.scale_free:
        yield prose(_scale_free(seen.scale_free))


def _kind(found: KindInvariance) -> str:
    changes = {
        "scale": found.scale,
        "a common shift": found.shift,
        "the rest of the batch": found.batch,
        "padding": found.padding,
        "training mode": found.mode,
    }
    known = {what: change for what, change in changes.items() if change is not None}
    blind = [what for what, change in known.items() if change <= _BLIND]
    seeing = [f"{what} ({percent(known[what])})" for what in known if what not in blind]
    parts = [f"blind to {', '.join(blind)}"] if blind else []
    parts += [f"changed by {', '.join(seeing)}"] if seeing else []
    if found.single is not None:
        parts.append(f"in training, one token alone keeps {percent(found.single)} of its energy")
    how = "run" if found.by == "module" else "replayed"
    return f"{'; '.join(parts)} ({how} at {visible(found.norm)})"


def _centring(centring: Centring) -> str:
    other = "RMSNorm" if centring.kind == "layernorm" else "LayerNorm"
    largest = (
        f"What the mean holds of the input of {count(centring.norms, centring.kind)}: "
        f"{times(centring.median)} chance in the median, at most {times(centring.max)}, at "
        f"{visible(centring.norm)}"
    )
    if centring.max < _FAR:
        return f"{largest}: {other} would do nearly the same."
    return f"{largest}, {percent(centring.share)} of its energy: there {other} would differ."


def _scale_free(weights: tuple[ScaleFree, ...]) -> str:
    sized = (f"{visible(each.weight)} ({number(each.frobenius)})" for each in weights)
    return (
        f"Weights that feed norms alone, so that their size (in brackets) changes nothing but "
        f"their learning rate, which goes as 1/||W||^2: {named(sized, _NAMED)}."
    )
