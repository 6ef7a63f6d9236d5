"""What the norms are invariant to, a line for each kind."""

from __future__ import annotations

from collections.abc import Iterator

from normdiag.evidence.invariances import KindInvariance, ScaleInvariantWeight
from normdiag.number_text import format_number, format_percent
from normdiag.render.elements import Element, Fact, FactList, Heading, Sentence
from normdiag.render.escape import shorten_text
from normdiag.render.truncated_lines import join_truncated
from normdiag.report.report import Report

_INVARIANT = 1e-3
"""A relative change below this is none, epsilon and rounding apart."""
_SHOWN = 3


def section(report: Report, *, all_rows: bool) -> Iterator[Element]:
    """Yield what each kind of norm is invariant to, and what follows from it."""
    invariances = report.measurements.invariances
    if invariances is None or not (invariances.kinds or invariances.scale_invariant_weights):
        return
    yield Heading(title="Invariances")
    yield FactList(
        facts=tuple(
            Fact(label=shorten_text(kind), lines=(_describe_kind(invariance),))
            for kind, invariance in invariances.kinds.items()
        )
    )
    if invariances.scale_invariant_weights:
        most = None if all_rows else _SHOWN
        yield Sentence(text=_describe_weights(invariances.scale_invariant_weights, most))


def _describe_kind(invariance: KindInvariance) -> str:
    changes = {
        "scale": invariance.scale,
        "shift": invariance.shift,
        "batch": invariance.batch,
        "padding": invariance.padding,
        "train mode": invariance.train_vs_eval,
    }
    known = {what: change for what, change in changes.items() if change is not None}
    invariant = [what for what, change in known.items() if change <= _INVARIANT]
    varying = [f"{what} ({format_percent(known[what])})" for what in known if what not in invariant]
    parts = [f"invariant to {', '.join(invariant)}"] if invariant else []
    parts += [f"changed by {', '.join(varying)}"] if varying else []
    if invariance.batch_size_one is not None:
        share = format_percent(invariance.batch_size_one)
        parts.append(f"energy left at batch size 1 in train mode: {share}")
    method = "run" if invariance.method == "module" else "replayed"
    return f"{'; '.join(parts)} ({method} at {shorten_text(invariance.norm)})"


def _describe_weights(weights: tuple[ScaleInvariantWeight, ...], most: int | None) -> str:
    sized = (f"{shorten_text(each.weight)} ({format_number(each.frobenius)})" for each in weights)
    return (
        "Scale-invariant weights, read by norms alone, with ||W||_F (their effective learning rate "
        f"goes as 1/||W||^2): {join_truncated(sized, most)}."
    )
