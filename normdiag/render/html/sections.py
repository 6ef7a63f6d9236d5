"""The elements of a page cut into its sections."""

from __future__ import annotations

from normdiag.render.elements import Element, Heading, HeatMap, Page, Series
from normdiag.render.html.document import Section


def split_sections(
    page: Page, prefix: str = "section"
) -> tuple[tuple[Element, ...], tuple[Section, ...]]:
    """Return what stands ahead of the first heading of level 2, and the sections behind it.

    Series and heat maps are left out: the page has charts of the same numbers.
    """
    lead: list[Element] = []
    sections: list[tuple[Heading, list[Element]]] = []
    for element in page.elements:
        if isinstance(element, Heading) and element.level == 2:
            sections.append((element, []))
        elif isinstance(element, Heading) and element.level == 1 and not sections:
            continue
        elif not isinstance(element, Series | HeatMap):
            (sections[-1][1] if sections else lead).append(element)
    return tuple(lead), tuple(
        Section(
            id=f"{prefix}-{place}",
            title=heading.title,
            detail=heading.detail,
            elements=tuple(elements),
        )
        for place, (heading, elements) in enumerate(sections)
    )
