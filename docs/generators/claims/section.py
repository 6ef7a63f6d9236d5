"""The section of a claim: its trials in one table, as ranges over the seeds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby
from textwrap import fill
from typing import Any

from docs.generators.claims.claim import Case, Claim, Rows, join_verdicts

Results = Mapping[Case, Rows]


def joint_verdict(claim: Claim, results: Results) -> str:
    """The verdict on all trials."""
    return join_verdicts({case: claim.criterion.judge(rows) for case, rows in results.items()})


def merge_rows(results: Results) -> list[list[str]]:
    """Row by row, a line per length; lengths that give the same are one line."""
    merged = []
    for i in range(len(next(iter(results.values())))):
        lines = []
        for length, cases in groupby(results, key=lambda case: case.tokens):
            cells = zip(*(results[case][i] for case in cases), strict=True)
            lines.append((str(length), [merge_cells(cell) for cell in cells]))
        for cells, same in groupby(lines, key=lambda line: line[1]):
            merged.append([", ".join(length for length, _ in same), *cells])
    return merged


def merge_cells(values: Sequence[Any]) -> str:
    """The range of numbers; words with the number of seeds that gave them."""
    if all(isinstance(value, int | float) for value in values):
        ends = format_number(min(values)), format_number(max(values))
        return ends[0] if ends[0] == ends[1] else " to ".join(ends)
    counts = Counter(str(value) for value in values).most_common()
    if len(counts) == 1:
        return counts[0][0]
    return ", ".join(f"{value} ({many})" for value, many in counts)


def format_number(value: float) -> str:
    """Three digits."""
    if value == int(value) and abs(value) < 1e6:
        return f"{value:.0f}"
    return f"{value:.3g}"


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def claim_section(number: int, claim: Claim, results: Results) -> str:
    """The section of one claim."""
    verdict = joint_verdict(claim, results)
    verdict = verdict[0].upper() + verdict[1:]
    return "\n".join(
        [
            f"\n## {number}. {claim.statement}\n",
            _fill_paragraph(f"**{verdict}.** Source: {claim.source}.\n"),
            _fill_paragraph(claim.conclusion),
            markdown_table(["tokens", *claim.head], merge_rows(results)),
            _fill_paragraph(f"Criterion: {claim.criterion.words}."),
            _fill_paragraph(f"Measured: {claim.how}"),
        ]
    )


def _fill_paragraph(paragraph: str) -> str:
    return fill(paragraph, 100, break_long_words=False, break_on_hyphens=False) + "\n"
