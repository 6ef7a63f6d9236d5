"""A statement about norms or the residual stream, and what came out when it was measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from textwrap import fill
from typing import Any

import normdiag
from normdiag.evidence.measurements import Measurements

HELD, FAILED = "held", "did not hold"


@dataclass(frozen=True)
class Outcome:
    """What one run gave."""

    verdict: str
    head: Sequence[str]
    rows: Sequence[Sequence[Any]]
    """Numbers and words under `head`."""
    conclusion: str


@dataclass(frozen=True)
class Claim:
    """One statement, and the run that tries it."""

    statement: str
    source: str
    how: str
    """Model, sizes, seeds, and which numbers of the report are read."""
    measure: Callable[[], Outcome]

    @property
    def name(self) -> str:
        return self.measure.__name__


def claim(statement: str, *, source: str, how: str) -> Callable[[Callable[[], Outcome]], Claim]:
    """Make a measurement the claim that it tries."""
    return lambda measure: Claim(statement, source, " ".join(how.split()), measure)


def plain_verdict(is_so: bool) -> str:
    """The verdict on a plain statement."""
    return HELD if is_so else FAILED


def conditional_verdict(condition: str, *, with_it: bool, without: bool) -> str:
    """The verdict on a statement that was tried with the condition and without it."""
    if with_it and not without:
        return f"holds only if {condition}"
    return plain_verdict(with_it and without)


def measure_model(built: tuple[Any, Any], *what: str) -> Measurements:
    """What normdiag measures of (model, inputs)."""
    model, inputs = built
    return normdiag.inspect(model, inputs=inputs, measure=what).measurements


def format_cell(value: Any) -> str:
    """Three digits of a number; words as they are."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if isinstance(value, int) or (value == int(value) and abs(value) < 1e6):
        return f"{value:.0f}"
    return f"{value:.3g}"


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *([format_cell(cell) for cell in row] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def section(number: int, claim: Claim, outcome: Outcome) -> str:
    """The section of one claim."""
    verdict = outcome.verdict[0].upper() + outcome.verdict[1:]
    return "\n".join(
        [
            f"\n## {number}. {claim.statement}\n",
            _fill_paragraph(f"**{verdict}.** Source: {claim.source}.\n"),
            _fill_paragraph(outcome.conclusion),
            markdown_table(outcome.head, outcome.rows),
            _fill_paragraph(f"Measured: {claim.how}"),
        ]
    )


def _fill_paragraph(paragraph: str) -> str:
    return fill(paragraph, 100, break_long_words=False, break_on_hyphens=False) + "\n"
