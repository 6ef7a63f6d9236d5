"""Which sentences are known, and what each of their numbers must be by the report.

A template is the sentence with `{name}` for each number, `{id_name}` for each name, `{list_name}`
for some words and `[[..]]` for what may be missing; a `^` at its start stands for the start of the
paragraph, a `$` at its end for the end of the clause, `$$` for that of the paragraph. The function
beside it computes every number anew from the JSON.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from tests.sentences.shown_numbers import NUMBER, agrees_with, find_numbers

Json = dict[str, Any]
PageKind = Literal["report", "comparison"]
"""What the JSON is that a page is held against."""
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

    page: PageKind
    heading: re.Pattern[str]
    pattern: re.Pattern[str]
    check: Check


CLAIMS: list[Claim] = []


def claim(heading: str, template: str, page: PageKind = "report") -> Callable[[Check], Check]:
    """Register the check of the sentences that read like `template` below such a heading."""

    def register(check: Check) -> Check:
        CLAIMS.append(Claim(page, re.compile(heading), compile_template(template), check))
        return check

    return register


def compile_template(template: str) -> re.Pattern[str]:
    """Return the regular expression of a template."""
    is_whole = template.endswith("$$")
    is_to_clause_end = template.endswith("$") or (
        template.endswith("}") and "{list_" in template.rsplit(" ", 1)[-1]
    )
    parts = ["^"] if template.startswith("^") else []
    template = template.removeprefix("^").rstrip("$")
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
    return re.compile("".join(parts) + (r"\Z" if is_whole else end), re.DOTALL)


def find_claims(
    heading: str, paragraph: str, page: PageKind
) -> Iterator[tuple[Claim, re.Match[str]]]:
    """Yield every known sentence of `paragraph`."""
    for each in CLAIMS:
        if each.page == page and each.heading.match(heading):
            for match in each.pattern.finditer(paragraph):
                yield each, match


def check_paragraph(
    heading: str, paragraph: str, document: Json, page: PageKind = "report"
) -> Iterator[str]:
    """Check every known sentence in `paragraph` and yield those with two numbers that none knows.

    Raises:
        AssertionError: a number that is not the report's.
    """
    rest = paragraph
    for each, match in find_claims(heading, paragraph, page):
        each.check(Sentence(heading, match.group(), match.groupdict()), document)
        rest = rest.replace(match.group(), "")
    for sentence in re.split(r"(?<=[.;])\s+", rest):
        if len(find_numbers(sentence)) > 1:
            yield f"{heading}: {sentence}"
