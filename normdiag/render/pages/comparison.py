"""The page of two models: what differs, where their streams diverge, which findings changed."""

from __future__ import annotations

from collections.abc import Iterator

from normdiag.evidence.subject import Subject
from normdiag.number_text import format_count, format_number
from normdiag.render.axis import Axis
from normdiag.render.elements import (
    Column,
    Element,
    Fact,
    FactList,
    Gap,
    Heading,
    ItemList,
    Name,
    Number,
    Page,
    Row,
    Sentence,
    Series,
    Table,
)
from normdiag.render.escape import shorten_message, shorten_text
from normdiag.render.interface import Options
from normdiag.render.truncated_lines import join_truncated
from normdiag.report.compare.comparison import Comparison, Difference, StreamDifference

_BASES = {
    "values": "values on the same inputs, token by token",
    "summaries": "norms over all tokens, as saved in the reports; rotations of the stream are not "
    "detected",
    "structure": "structure, norms and weights",
}
_ENDS = 2
"""Adds that are shown at either end of the stream and on either side of where it diverges."""
_PLACES = 4
"""Sites that are listed of those where a difference is the same."""
_SHOWN = 12
"""A stream of so many adds is shown whole."""


def build_comparison(comparison: Comparison, options: Options) -> Page:
    """Return the outcome first, then what it rests on."""
    headline = shorten_message(comparison.headline)
    return Page(
        title=f"{comparison.a.target} and {comparison.b.target}",
        outcome=headline,
        elements=(
            Heading(level=1, title=headline, is_lead=True),
            _describe_subjects(comparison),
            *_list_differences(comparison, all_rows=options.all_rows),
            *_tabulate_stream(comparison, all_rows=options.all_rows),
            *_list_changes(comparison),
        ),
    )


def select_adds(
    stream: tuple[StreamDifference, ...], divergence: str | None, *, all_rows: bool
) -> list[int]:
    """Return the adds to show: the ends, and those around the one where the streams diverge."""
    last = len(stream) - 1
    if all_rows or len(stream) <= _SHOWN:
        return list(range(len(stream)))
    middle = next((i for i, site in enumerate(stream) if site.a == divergence), 0)
    shown = {
        *range(_ENDS),
        *range(middle - _ENDS, middle + _ENDS + 1),
        *range(last - _ENDS + 1, last + 1),
    }
    return sorted(i for i in shown if 0 <= i <= last)


def _describe_subjects(comparison: Comparison) -> FactList:
    inputs = comparison.a.probe
    rows = [
        ("A", _describe_subject(comparison.a)),
        ("B", _describe_subject(comparison.b)),
        ("basis", _BASES[comparison.basis]),
    ]
    if comparison.basis != "structure":
        sequences = format_count(inputs.sequences, "sequence")
        tokens = format_count(inputs.tokens, "token")
        rows.append(("inputs", f"{sequences}, {tokens} ({shorten_text(inputs.kind)})"))
    if comparison.paired_by == "position":
        rows.append(("paired", "by position in the data flow; the names differ"))
    for name, measured in comparison.outputs.items():
        error = format_number(measured.median)
        rows.append(
            ("output", f"{shorten_text(name)}: relative error {error} (median over tokens)")
        )
    rows += [
        ("outputs", f"{shorten_text(name)}: its sums agree within rounding in {comparison.dtype}")
        for name in comparison.equal_outputs
    ]
    rows += [("not judged", shorten_text(text)) for text in comparison.not_compared]
    if comparison.note is not None:
        rows.append(("note", shorten_text(comparison.note)))
    return FactList(facts=tuple(Fact(label=label, lines=(value,)) for label, value in rows))


def _describe_subject(subject: Subject) -> str:
    what = ", ".join(part for part in (subject.class_, subject.dtype) if part)
    mode = "" if subject.mode == "run" else f" ({subject.mode})"
    return shorten_text(f"{subject.target}  {what}{mode}")


def _list_differences(comparison: Comparison, *, all_rows: bool) -> Iterator[Element]:
    detail = "" if comparison.differences else "none"
    yield Heading(title="Differences", detail=detail, is_lead=True)
    for difference in comparison.differences:
        message = shorten_message(difference.message)
        yield Sentence(severity=difference.severity, text=f"{difference.kind}: {message}")
        yield from _list_other_sites(difference, all_rows=all_rows)


def _list_other_sites(difference: Difference, *, all_rows: bool) -> Iterator[Element]:
    others = (difference.a or difference.b)[1:]
    if others and difference.kind != "moved-layers":  # whose message names both
        places = join_truncated(map(shorten_text, others), None if all_rows else _PLACES)
        yield ItemList(items=(f"also at {places}",))


def _tabulate_stream(comparison: Comparison, *, all_rows: bool) -> Iterator[Element]:
    stream, divergence = comparison.stream, comparison.first_divergence
    if not stream:
        return
    shown = select_adds(stream, divergence.a if divergence else None, all_rows=all_rows)
    count = format_count(len(stream), "add")
    yield Heading(title="Stream", detail=f"{len(shown)} of {count}")
    errors = tuple(site.out.median for site in stream)
    yield Series(
        title="Relative error of y",
        x_title="add",
        x=tuple(site.a for site in stream),
        y=errors,
        axis=Axis.fit_values(errors),
    )
    rows: list[Row | Gap] = []
    for before, index in zip([-1, *shown], shown, strict=False):
        if index > before + 1:
            rows.append(Gap(text=format_count(index - before - 1, "add")))
        rows.append(_make_row(stream[index]))
    yield Table(columns=_list_columns(comparison), rows=tuple(rows))


def _list_columns(comparison: Comparison) -> tuple[Column, ...]:
    tokens = comparison.stream[0].tokens
    statistic = (
        "mean or median norm over tokens, whichever differs more"
        if tokens is None
        else f"||a - b|| / ||a||, median over {format_count(tokens, 'sampled token')}"
    )
    return (
        Column(title="add"),
        Column(
            title="x",
            align="right",
            meaning=f"relative error of the stream before the add ({statistic})",
        ),
        Column(title="u", align="right", meaning="of the update"),
        Column(title="y", align="right", meaning="of x + u"),
        Column(
            title="rounding",
            align="right",
            meaning=f"error that rounding in {shorten_text(comparison.dtype)} explains",
        ),
    )


def _make_row(site: StreamDifference) -> Row:
    is_beyond = site.out.median > site.tolerance
    return Row(
        cells=(
            Name(text=site.a),
            *(Number(value=part.median) for part in (site.skip, site.branch, site.out)),
            Number(value=site.tolerance),
        ),
        style="caution" if is_beyond else "plain",
    )


def _list_changes(comparison: Comparison) -> Iterator[Element]:
    detail = "" if comparison.changes else "the same in both"
    yield Heading(title="Findings", detail=detail, is_lead=True)
    for change in comparison.changes:
        finding = change.finding
        name = f"{shorten_text(finding.code)} {shorten_text(finding.name)}"
        why = f" ({shorten_text(change.why)})" if change.state == "worse" else ""
        yield Sentence(
            severity=finding.severity,
            text=f"{change.state}: {name}: {shorten_message(finding.message)}{why}",
        )
    for rule in comparison.skipped_rules:
        text = f"Judged in one of the two only: {shorten_text(rule.code)}: {shorten_text(rule.why)}"
        yield Sentence(text=text, style="quiet")
