"""What was loaded and run, in two lines."""

from __future__ import annotations

from collections.abc import Iterator

from normdiag.render.elements import Element, Fact, FactList
from normdiag.render.sections.subject import MODES, describe_inputs, describe_model
from normdiag.report.report import Report


def section(report: Report, *, all_rows: bool) -> Iterator[Element]:
    """Yield the model and its inputs, or why it was not run with its weights."""
    subject = report.subject
    inputs = MODES.get(subject.mode) or describe_inputs(subject)
    facts = (
        Fact(label="model", lines=tuple(describe_model(subject).split(", ")), most_lines=1),
        Fact(label="inputs", lines=tuple(inputs.split("; ")), most_lines=1),
    )
    yield FactList(facts=facts, has_clauses=True)
