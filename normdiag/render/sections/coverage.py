"""What was not understood, not run or not measured, and the proof of the rest."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from rich.console import RenderableType

from normdiag.evidence.coverage import Coverage
from normdiag.render.badness import badness
from normdiag.render.escape import visible
from normdiag.render.few import few, named
from normdiag.render.page import QUIET, Page, heading, prose
from normdiag.render.units import count, number
from normdiag.report.report import Report

_FEW = 6


def section(report: Report, page: Page) -> Iterator[RenderableType]:
    """Yield the margin of the report: what it cannot say, and how far what it says is proven."""
    yield heading("What was not understood")
    blanks = list(_blanks(report.coverage, page))
    yield from blanks
    if not blanks:
        yield prose("Nothing: every norm and every add is explained, and all was run.")
    yield from _proof(report)


def _blanks(coverage: Coverage, page: Page) -> Iterator[RenderableType]:
    adds = [
        f"{visible(add.module)}, {visible(add.line or 'no line')}, {list(add.shape)}: "
        f"{visible(add.why)}"
        for add in coverage.unexplained_adds
    ]
    norms = [visible(norm) for norm in coverage.unexplained_norms]
    skipped = [f"{visible(item.what)}: {visible(item.why)}" for item in coverage.skipped]
    for title, lines in (
        ("Additions that are no known thing", adds),
        ("Norms that are attached to nothing", norms),
        ("Not done, and why", skipped),
        ("Modules that the forward did not call", _modules(coverage.modules_not_called)),
    ):
        if lines:
            yield prose(f"{title}:")
            yield prose("\n".join(few(lines, page.most(_FEW))), indent=4)


def _modules(names: Sequence[str]) -> list[str]:
    """Return module names without those inside another one, alike ones on one line.

    >>> _modules(("a.0.q", "a.1.q", "b", "b.c"))
    ['a.*.q (2 modules)', 'b (1 module with 1 inside)']
    """
    given = set(names)
    inside: Counter[str] = Counter()
    outermost: Counter[str] = Counter()
    for name in names:
        parts = name.split(".")
        parents = (".".join(parts[:end]) for end in range(1, len(parts)))
        parent = next((parent for parent in parents if parent in given), None)
        pattern = re.sub(r"(^|\.)\d+(?=\.|$)", r"\1*", parent or name)
        (outermost if parent is None else inside)[pattern] += 1
    return [
        f"{visible(pattern)} ({count(many, 'module')}"
        + (f" with {inside[pattern]:,} inside)" if inside[pattern] else ")")
        for pattern, many in outermost.items()
    ]


def _proof(report: Report) -> Iterator[RenderableType]:
    closures = [
        f"{visible(id)} closes to {number(closure.max_rel_error, 2)}"
        + ("" if closure.layer is None else f" (worst at layer {closure.layer})")
        for id, closure in report.measurements.closure.items()
    ]
    replayed = list(_replayed(report))
    if closures or replayed:
        yield prose(f"Proof: {'; '.join([*closures, *replayed])}.")
        yield prose(
            "A stack closes when what came in plus what its adds wrote is what went out.", QUIET
        )
    if replayed:
        yield from _missed(report)


def _replayed(report: Report) -> Iterator[str]:
    errors = {id: replay.max_rel_error for id, replay in report.measurements.replay.items()}
    if not errors:
        return
    architecture = report.architecture
    norms = sum(norm.id in errors for norm in architecture.norms)
    adds = sum(add.id in errors for add in architecture.residual_adds)
    worst = max(errors, key=lambda id: badness(errors[id]))
    yield (
        f"{count(norms, 'norm')} and {count(adds, 'add')} recomputed from their operands to "
        f"{number(errors[worst], 2)} (worst at {visible(worst)})"
    )


def _missed(report: Report) -> Iterator[RenderableType]:
    ids = [norm.id for norm in report.architecture.norms]
    ids += [add.id for add in report.architecture.residual_adds]
    missed = [visible(id) for id in ids if id not in report.measurements.replay]
    if missed:
        yield prose(f"Not recomputed: {named(missed, _FEW)}.")
