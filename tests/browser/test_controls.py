"""What a reader does with a page: sorts and filters tables, walks it by keyboard, prints it."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.browser
pytest.importorskip("vl_convert", reason="pip install 'normdiag[html]'")

UNFOLD = "() => document.querySelectorAll('details').forEach((it) => { it.open = true; })"
CONTROLS = "[...document.querySelectorAll('a[href], summary, button, input')]"
ACTIVE = f"() => {CONTROLS}.indexOf(document.activeElement)"
PICTURE_SIZES = """() => [...document.querySelectorAll('figure svg')].map((picture) => {
  const outer = picture.closest('figure').getBoundingClientRect();
  const inner = picture.getBoundingClientRect();
  return {
    fits: inner.right <= outer.right + 1 && inner.bottom <= outer.bottom + 1,
    width: inner.width,
  };
})"""


def test_tables_sort_and_filter(open_page, files) -> None:
    page = open_page(files["complete"], fresh=True).page
    page.evaluate(UNFOLD)
    table = (
        page.locator("table", has=page.locator("th button"))
        .filter(has_text="model.layers.0.input_layernorm")
        .first
    )
    rows = table.locator("tbody tr")
    before = rows.all_text_contents()
    header = table.locator("th button").first
    header.click()
    first = rows.all_text_contents()
    header.click()
    second = rows.all_text_contents()
    assert sorted(first) == sorted(second) == sorted(before) and first == second[::-1]
    search = page.locator("input[type=search]").first
    search.fill("no such text")
    filtered = page.locator("label.filter + .scroll").first.locator("tbody tr:visible")
    assert filtered.count() == 0
    search.fill("")
    assert filtered.count() > 0


@pytest.mark.parametrize("name", ["one-layer", "comparison", "several"])
def test_every_control_is_reached_by_the_keyboard(open_page, files, name) -> None:
    page = open_page(files[name], fresh=True).page
    wanted = page.evaluate(f"() => {CONTROLS}.filter((it) => it.checkVisibility()).length")
    reached = set()
    for _ in range(wanted + 40):
        page.keyboard.press("Tab")
        reached.add(page.evaluate(ACTIVE))
    assert len(reached - {-1}) == wanted


@pytest.mark.parametrize("name", ["complete", "two-stacks", "comparison"])
def test_it_prints_pictures_that_are_not_clipped(open_page, files, name) -> None:
    page = open_page(files[name], fresh=True).page
    page.set_viewport_size({"width": 800, "height": 900})
    page.emulate_media(media="print")
    assert page.locator("figure .live").first.is_hidden()
    sizes: list[dict[str, Any]] = page.evaluate(PICTURE_SIZES)
    assert sizes and all(size["fits"] and size["width"] > 200 for size in sizes)
    assert page.pdf()[:5] == b"%PDF-"


def test_it_follows_the_colours_of_the_system(open_page, files) -> None:
    page = open_page(files["one-layer"], fresh=True).page
    background = "() => getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(background)
    page.emulate_media(color_scheme="dark")
    assert page.evaluate(background) != light
