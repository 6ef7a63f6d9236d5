"""Which sentences are known, and what each of their numbers must be by the report.

A template is the sentence with `{name}` for each number, `{id_name}` for each name, `{list_name}`
for some words and `[[..]]` for what may be missing; a `^` at its start stands for the start of the
paragraph, a `$` at its end for the end of the clause. The function beside it computes every number
anew from the JSON.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tests.sentences.shown_numbers import NUMBER, agrees_with, find_numbers

Json = dict[str, Any]
Check = Callable[["Sentence", Json], None]


@dataclass(frozen=True)
class Sentence:
    """A sentence that stands on a page, and the heading above it."""

    heading: str
    text: str
    parts: dict[str, str | None]

    def __getitem__(self, name: str) -> str:
        """The part called `name`; the sentence must hold it."""
        part = self.parts[name]
        assert part is not None, f"{self.text!r} lacks {name}"
        return part

    def holds(self, name: str) -> bool:
        """Whether an optional part is there."""
        return self.parts.get(name) is not None

    def must_agree(self, **values: float | None) -> None:
        """Every number must be the value of its name, to the digits that are shown."""
        for name, value in values.items():
            shown = self[name]
            assert agrees_with(shown, value), (
                f"{name} is {shown} in {self.text!r}, by the report it is {value}"
            )


@dataclass(frozen=True)
class Claim:
    """A kind of sentence and how it is checked."""

    heading: re.Pattern[str]
    pattern: re.Pattern[str]
    check: Check


CLAIMS: list[Claim] = []


def claim(heading: str, template: str) -> Callable[[Check], Check]:
    """Register the check of the sentences that read like `template` below such a heading."""

    def register(check: Check) -> Check:
        CLAIMS.append(Claim(re.compile(heading), compile_template(template), check))
        return check

    return register


def compile_template(template: str) -> re.Pattern[str]:
    """Return the regular expression of a template."""
    is_to_clause_end = template.endswith("$") or (
        template.endswith("}") and "{list_" in template.rsplit(" ", 1)[-1]
    )
    parts = ["^"] if template.startswith("^") else []
    template = template.removeprefix("^").removesuffix("$")
    for part in re.split(r"(\{\w+\}|\[\[|\]\])", template):
        if part in ("[[", "]]"):
            parts.append("(?:" if part == "[[" else ")?")
        elif part.startswith("{"):
            inner = r"\S+?" if part.startswith("{id_") else NUMBER
            inner = r".+?" if part.startswith("{list_") else inner
            parts.append(f"(?P<{part[1:-1]}>{inner})")
        else:
            parts.append(re.escape(part))
    end = r"(?=[;:.]\s|[.]?$)" if is_to_clause_end else r"(?=[;:,.)]?(?:\s|$))"
    return re.compile("".join(parts) + end)


def check_paragraph(heading: str, paragraph: str, report: Json) -> Iterator[str]:
    """Check every known sentence in `paragraph` and yield those with two numbers that none knows.

    Raises:
        AssertionError: a number that is not the report's.
    """
    rest = paragraph
    for each in CLAIMS:
        if each.heading.match(heading):
            for match in each.pattern.finditer(paragraph):
                each.check(Sentence(heading, match.group(), match.groupdict()), report)
                rest = rest.replace(match.group(), "")
    for sentence in re.split(r"(?<=[.;])\s+", rest):
        if len(find_numbers(sentence)) > 1:
            yield f"{heading}: {sentence}"
