"""What is unexplained, skipped or was not run, and how exactly the rest was verified."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from normdiag.evidence.architecture import Norm
from normdiag.evidence.coverage import Coverage
from normdiag.number_text import format_count, format_number
from normdiag.render.elements import Element, Heading, ItemList, Sentence
from normdiag.render.escape import shorten_text
from normdiag.render.sections.stack_names import name_stack
from normdiag.render.sort_key import nan_as_largest
from normdiag.render.truncated_lines import join_truncated, truncate_lines
from normdiag.report.report import Report

_SHOWN = 6


def section(report: Report, *, all_rows: bool) -> Iterator[Element]:
    """Yield what the report does not cover, and the errors of what it does."""
    yield Heading(title="Coverage")
    near = _name_near_norms(report.architecture.norms)
    missing = list(_list_missing(report.coverage, near, all_rows=all_rows))
    yield from missing
    if not missing:
        yield Sentence(text="Complete: all norms and residual adds explained, all modules called.")
    yield from _describe_closure(report)
    yield from _describe_replay(report)


def _name_near_norms(norms: Sequence[Norm]) -> list[str]:
    """Return each formula that stands for a norm and is none, with its sites."""
    sites: dict[str, list[str]] = {}
    for norm in norms:
        if norm.scaling is not None:
            centring = "mean subtracted" if norm.is_centred else "mean not subtracted"
            sites.setdefault(f"x {norm.scaling} ({centring})", []).append(shorten_text(norm.id))
    return [
        f"{formula}, {format_count(len(ids), 'call')}: {join_truncated(ids, _SHOWN)}"
        for formula, ids in sites.items()
    ]


def _list_missing(
    coverage: Coverage, near_norms: Sequence[str], *, all_rows: bool
) -> Iterator[Element]:
    adds = [
        f"{shorten_text(add.module)}, {shorten_text(add.line or 'no line')}, {list(add.shape)}: "
        f"{shorten_text(add.why)}"
        for add in coverage.unexplained_adds
    ]
    norms = [shorten_text(norm) for norm in coverage.unexplained_norms]
    skipped = [f"{shorten_text(each.what)}: {shorten_text(each.why)}" for each in coverage.skipped]
    for title, lines in (
        ("Additions not explained", adds),
        ("Neither LayerNorm nor RMSNorm, a statistic that scales x", near_norms),
        ("Norms attached to no stack", norms),
        ("Not measured", skipped),
        ("Modules not called", _group_modules(coverage.modules_not_called)),
    ):
        if lines:
            yield Sentence(text=f"{title}:")
            yield ItemList(items=tuple(truncate_lines(lines, None if all_rows else _SHOWN)))


def _group_modules(names: Sequence[str]) -> list[str]:
    """Return module names without those inside another one, with equal patterns on one line.

    >>> _group_modules(("a.0.q", "a.1.q", "b", "b.c"))
    ['a.*.q (2 modules)', 'b (1 module with 1 inside)']
    """
    modules = set(names)
    inside: Counter[str] = Counter()
    outermost: Counter[str] = Counter()
    for name in names:
        parts = name.split(".")
        parents = (".".join(parts[:end]) for end in range(1, len(parts)))
        parent = next((parent for parent in parents if parent in modules), None)
        pattern = re.sub(r"(^|\.)\d+(?=\.|$)", r"\1*", parent or name)
        (outermost if parent is None else inside)[pattern] += 1
    return [
        f"{shorten_text(pattern)} ({format_count(many, 'module')}"
        + (f" with {inside[pattern]:,} inside)" if inside[pattern] else ")")
        for pattern, many in outermost.items()
    ]


def _describe_closure(report: Report) -> Iterator[Element]:
    for id, closure in report.measurements.closure.items():
        layer = "" if closure.layer is None else f" (largest, at layer {closure.layer})"
        yield Sentence(
            text=f"Reconstruction error (x_in + Σ u vs x_out) of {name_stack(id)}: "
            f"{format_number(closure.max_rel_error)}{layer}."
        )


def _describe_replay(report: Report) -> Iterator[Element]:
    errors = {id: replay.max_rel_error for id, replay in report.measurements.replay.items()}
    if not errors:
        return
    norms = [norm.id for norm in report.architecture.norms if norm.scaling is None]
    adds = [add.id for add in report.architecture.residual_adds]
    counts = [
        format_count(many, noun)
        for ids, noun in ((norms, "norm"), (adds, "add"))
        if (many := sum(id in errors for id in ids))
    ]
    worst = max(errors, key=lambda id: nan_as_largest(errors[id]))
    yield Sentence(
        text=f"Replay error of {' and '.join(counts)}, recomputed from their operands: "
        f"{format_number(errors[worst])} (largest, at {shorten_text(worst)})."
    )
    missing = [shorten_text(id) for id in (*norms, *adds) if id not in errors]
    if missing:
        yield Sentence(text=f"Not recomputed: {join_truncated(missing, _SHOWN)}.")
