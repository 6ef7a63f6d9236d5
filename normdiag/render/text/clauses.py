"""Facts of several clauses: as many as fit stand on their line, or on two where there is room."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from normdiag.render.elements import Element, Fact, FactList
from normdiag.render.escape import escape_in_full, escape_text
from normdiag.render.text.layout import GAP, INDENT, SEVERITY_STYLES, STYLES

_LONGEST_LABEL = 32


def make_clauses(facts: Sequence[Fact], width: int) -> RenderableType:
    """Return each label and as many of its clauses as fit into its lines, whole ones."""
    longest = _measure_labels(facts)
    lines = []
    for fact in facts:
        label = _cut_label(fact.label)
        colour = SEVERITY_STYLES[fact.severity] if fact.severity else STYLES["quiet"]
        for line in _fit_fact(fact, width - longest):
            shown = _cut_line(line, width - longest)
            words = ((label.ljust(longest - INDENT), colour), (shown, STYLES[fact.style]))
            text = Text.assemble(*words, no_wrap=True)
            lines.append(Padding(text, (0, 0, 0, INDENT), expand=False))
            label = ""
    return Group(*lines)


def fit_clauses(clauses: Sequence[str], width: int, most_lines: int = 1) -> list[str]:
    """Distribute clauses over lines, up to the first that has no room; the very first has.

    >>> fit_clauses(["kappa 12.0", "at layer 7", "of 8"], 24)
    ['kappa 12.0; at layer 7']
    """
    lines = list(clauses[:1])
    for number, clause in enumerate(clauses[1:], 1):
        room = width if number == len(clauses) - 1 else width - 1  # for the ";" before a next line
        if len(f"{lines[-1]}; {clause}") <= room:
            lines[-1] += f"; {clause}"
        elif len(lines) < most_lines:
            lines[-1] += ";"
            lines.append(clause)
        else:
            break
    return lines


def share_lines(
    elements: Sequence[Element], width: int, most_lines: int, count_lines: Callable[[Element], int]
) -> list[Element]:
    """Leave a second line to the first facts that need one, as long as the page has room.

    `count_lines`: of an element without clauses, as it is drawn.
    """
    spare = most_lines - sum(
        len(each.facts) if isinstance(each, FactList) and each.has_clauses else count_lines(each)
        for each in elements
    )
    shared: list[Element] = []
    for element in elements:
        if isinstance(element, FactList) and element.has_clauses:
            facts = []
            for fact in element.facts:
                more = len(_fit_fact(fact, width - _measure_labels(element.facts))) - 1
                facts.append(fact if more <= spare else replace(fact, most_lines=1))
                spare -= more if more <= spare else 0
            shared.append(replace(element, facts=tuple(facts)))
        else:
            shared.append(element)
    return shared


def _fit_fact(fact: Fact, width: int) -> list[str]:
    return fit_clauses(list(map(escape_in_full, fact.lines)), width, fact.most_lines)


def _measure_labels(facts: Sequence[Fact]) -> int:
    """The columns in front of the clauses."""
    return max((len(_cut_label(fact.label)) for fact in facts), default=0) + GAP + INDENT


def _cut_label(label: str) -> str:
    """The label, without its beginning where it is long: names differ at their ends."""
    label = escape_text(label)
    return label if len(label) <= _LONGEST_LABEL else f"…{label[1 - _LONGEST_LABEL :]}"


def _cut_line(line: str, width: int) -> str:
    """The line, without its end where that has no room; what parts it from the next one stays."""
    end = ";" if line.endswith(";") else ""
    while cell_len(line) > width > 2:
        line = f"{line.removesuffix(end).removesuffix('…')[:-1]}…{end}"
    return line
