"""A page as text for people, to be read to its end: the verdict is the last thing on the screen."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from rich.console import Console, Group, RenderableType
from rich.text import Text

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
from normdiag.render.escape import escape_in_full, escape_text
from normdiag.render.glyphs import draw_sparkline
from normdiag.render.text.clauses import make_clauses, share_lines
from normdiag.render.text.heat_maps import draw_heat_map
from normdiag.render.text.layout import (
    INDENT,
    SEVERITY_STYLES,
    STYLES,
    make_facts,
    make_paragraph,
)
from normdiag.render.text.plain_output import PlainOutput
from normdiag.render.text.tables import draw_table


def draw_page(page: Page, console: Console) -> None:
    """Write the elements in order, then in brief each of several targets that has more to say."""
    elements = page.elements
    if page.most_lines is not None:
        count = partial(_count_lines, console)
        elements = tuple(share_lines(elements, console.width, page.most_lines, count))
    parts = [*_draw_elements(elements, console.width)]
    for entry in (each for each in page.entries if not each.is_settled):
        heading = Heading(title=entry.title, detail=entry.outcome)
        parts.extend(_draw_elements((heading, *entry.brief), console.width))
    console.print(PlainOutput(Group(*parts)))


def _count_lines(console: Console, element: Element) -> int:
    drawn = Group(*_draw_element(element, None, console.width))
    return len(console.render_lines(drawn, pad=False))


def _draw_elements(elements: tuple[Element, ...], width: int) -> Iterator[RenderableType]:
    before: Element | None = None
    for element in elements:
        yield from _draw_element(element, before, width)
        before = element


def _draw_element(element: Element, before: Element | None, width: int) -> Iterator[RenderableType]:
    match element:
        case Heading():
            yield _draw_heading(element)
        case Sentence():
            yield make_paragraph(_draw_sentence(element))
        case FactList(has_clauses=True):
            yield make_clauses(element.facts, width)
        case FactList():
            is_part = isinstance(before, Heading) and before.level == 3
            yield _draw_facts(element, 2 * INDENT if is_part else INDENT)
        case ItemList():
            for item in element.items:
                yield make_paragraph(escape_in_full(item), indent=2 * INDENT)
        case Table():
            yield from draw_table(element, width)
        case Series():
            yield make_paragraph(_draw_series(element))
        case HeatMap():
            yield from draw_heat_map(element, width)


def _draw_heading(heading: Heading) -> RenderableType:
    title, detail = escape_in_full(heading.title), escape_in_full(heading.detail)
    more = f"  {detail}" if detail else ""
    if heading.level == 1:
        return Text.assemble((title, "bold"), more)
    if heading.level == 2:
        return make_paragraph(Text.assemble("\n", (title, "bold"), more), indent=0)
    return make_paragraph(Text.assemble(*_draw_severity(heading), (title, "bold"), (more, "")))


def _draw_sentence(sentence: Sentence) -> Text:
    text = (escape_in_full(sentence.text), STYLES[sentence.style])
    return Text.assemble(*_draw_severity(sentence), text)


def _draw_severity(element: Heading | Sentence) -> Iterator[tuple[str, str]]:
    if element.severity is not None:
        yield element.severity, SEVERITY_STYLES[element.severity]
        yield "  ", ""


def _draw_facts(facts: FactList, indent: int) -> RenderableType:
    return make_facts(
        (
            (
                escape_text(fact.label),
                Text("\n".join(map(escape_in_full, fact.lines)), STYLES[fact.style]),
            )
            for fact in facts.facts
        ),
        indent,
    )


def _draw_series(series: Series) -> str:
    title = escape_text(f"{series.title} by {series.x_title}")
    return f"{title}: {draw_sparkline(series.axis, series.y)}"
