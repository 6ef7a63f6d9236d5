"""A page as Markdown, to be read from its top: outcome, findings, then the sections to unfold."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from rich.console import Console

from normdiag.render.elements import (
    Element,
    FactList,
    Heading,
    HeatMap,
    ItemList,
    Page,
    Sentence,
    Series,
    Table,
)
from normdiag.render.glyphs import draw_sparkline
from normdiag.render.markdown.escape import (
    escape_advice,
    escape_html,
    escape_line,
    escape_words,
    format_code,
)
from normdiag.render.markdown.tables import draw_heat_map, draw_table

Section = tuple[Heading, list[Element]]


def draw_page(page: Page, console: Console) -> None:
    """Write the page; of several targets first the table of all, then each."""
    lines = _draw_page(page, "##")
    console.file.writelines(f"{line}\n" for line in lines)


def _draw_page(page: Page, mark: str) -> Iterator[str]:
    yield f"{mark} {'normdiag: ' if mark == '##' else ''}{escape_line(page.title)}"
    yield ""
    if page.outcome:
        yield f"**{escape_line(page.outcome)}**"
        yield ""
    yield from _draw_elements(page.summary)
    sections = _split_sections(page.elements)
    for heading, elements in sorted(sections, key=lambda section: not section[0].is_lead):
        if heading.detail == page.outcome:
            heading = replace(heading, detail="")
        yield from _draw_section(heading, elements, mark)
    for entry in page.entries:
        yield from _draw_page(entry, f"{mark}#")


def _split_sections(elements: tuple[Element, ...]) -> list[Section]:
    """Return the elements below each heading of level 1 or 2; the first may have none."""
    sections: list[Section] = []
    for element in elements:
        if isinstance(element, Heading) and element.level < 3:
            sections.append((element, []))
        elif sections:
            sections[-1][1].append(element)
        else:
            sections.append((Heading(level=1, title="", is_lead=True), [element]))
    return sections


def _draw_section(heading: Heading, elements: list[Element], mark: str) -> Iterator[str]:
    title = f"{heading.title}: {heading.detail}" if heading.detail else heading.title
    if heading.is_lead:
        if heading.level > 1:
            yield f"{mark}# {escape_words(title)}"
            yield ""
        yield from _draw_elements(elements)
        return
    summary = "Target" if heading.level == 1 else escape_html(title)
    yield f"<details><summary>{summary}</summary>"
    yield ""
    yield from _draw_elements(elements)
    yield "</details>"
    yield ""


def _draw_elements(elements: list[Element] | tuple[Element, ...]) -> Iterator[str]:
    for element in elements:
        yield from _draw_element(element)
        yield ""


def _draw_element(element: Element) -> Iterator[str]:
    match element:
        case Heading():
            severity = f"{element.severity}: " if element.severity else ""
            detail = f" {escape_words(element.detail)}" if element.detail else ""
            yield f"**{severity}{escape_line(element.title)}**{detail}"
        case Sentence():
            yield _draw_sentence(element)
        case FactList():
            for fact in element.facts:
                value = ", ".join(map(escape_advice, fact.lines))
                value = f"**{value}**" if fact.style in ("alarm", "caution") else value
                yield f"* {escape_line(fact.label)}: {value}"
        case ItemList():
            for item in element.items:
                yield f"* {escape_line(item)}"
        case Table():
            yield from draw_table(element)
        case Series():
            line = format_code(draw_sparkline(element.axis, element.y))
            yield f"{escape_line(element.title)} by {escape_words(element.x_title)}: {line}"
        case HeatMap():
            yield from draw_heat_map(element)


def _draw_sentence(sentence: Sentence) -> str:
    text = escape_line(sentence.text)
    if sentence.style in ("strong", "alarm", "caution"):
        text = f"**{text}**"
    return f"**{sentence.severity}** {text}" if sentence.severity else text
