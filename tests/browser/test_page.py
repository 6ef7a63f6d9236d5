"""What a page does in a real browser: charts, links, colours, names."""

from __future__ import annotations

import json
import math
from importlib import resources

import pytest

from tests.browser.pages import COMPARED, PAGES, REPORT, WITHOUT_FIGURES
from tests.render.test_html import EVIL

pytestmark = pytest.mark.browser
pytest.importorskip("vl_convert", reason="pip install 'normdiag[html]'")

INK = """() => [...document.querySelectorAll('.live canvas')].map((canvas) => {
  const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
  let drawn = 0;
  for (let at = 3; at < data.length; at += 4) drawn += data[at] > 0;
  return drawn;
})"""
UNFOLD = "() => document.querySelectorAll('details').forEach((it) => { it.open = true; })"
SHOW_PICTURES = """() => document.querySelectorAll('.drawn').forEach((it) => {
  it.classList.remove('drawn');
  it.querySelector('.live').hidden = true;
})"""
FRAME = """(name) => {
  const view = document.getElementById('chart-' + name).normdiagView;
  const [x, y] = view.origin(), padding = view.padding();
  return [x + padding.left, y + padding.top, view.width(), view.height()];
}"""
PLACE_OF_POINT = """() => {
  const view = document.getElementById('chart-token_likeness').normdiagView;
  return [view.scale('x')(4), view.scale('y')(0.31)];
}"""
POINTS = """(name) => {
  const view = document.getElementById('chart-' + name).normdiagView;
  return Object.values(view.getState({data: () => true}).data).flat()
    .filter((row) => row && row.series !== undefined && row.y2 === undefined)
    .map((row) => [row.series, row.site, row.y]);
}"""


@pytest.mark.parametrize("name", PAGES)
def test_it_draws_everything_without_a_request_or_a_complaint(open_page, files, name) -> None:
    opened = open_page(files[name])
    figures = opened.page.locator("figure:not(.drawing)").count()
    assert opened.page.locator("figure.drawn canvas").count() == figures
    assert (figures > 0) == (name not in WITHOUT_FIGURES)
    assert all(drawn > 100 for drawn in opened.page.evaluate(INK))
    assert opened.console == []
    outside = [url for url in opened.requests[1:] if not url.startswith("data:")]
    assert outside == []


@pytest.mark.parametrize("name", ["complete", "comparison"])
def test_the_policy_lets_no_string_run(open_page, files, name) -> None:
    page = open_page(files[name]).page
    policy = page.locator("meta[http-equiv=Content-Security-Policy]").get_attribute("content")
    assert policy.startswith("default-src 'none'; script-src 'sha256-") and "unsafe" not in policy


@pytest.mark.parametrize("name", [name for name in PAGES if name not in WITHOUT_FIGURES])
def test_every_plot_is_visible_without_scripts(open_page, files, name) -> None:
    page = open_page(files[name], scripts=False).page
    pictures = page.locator("figure .static svg[role=img]")
    assert pictures.count() == page.locator("figure:not(.drawing)").count() > 0
    layers = page.locator("figure.drawing svg[role=img]")
    has_stacks = "comparison" not in name and name != "no-stack"
    assert layers.count() == (2 if name == "two-stacks" else has_stacks)
    for picture in (*pictures.all(), *layers.all()):
        box = picture.bounding_box()
        assert box is not None and box["width"] > 200 and box["height"] > 30
    assert page.locator(".live").first.is_hidden()


@pytest.mark.parametrize(
    ("name", "scheme", "scripts"),
    [
        ("complete", "light", True),
        ("complete", "dark", True),
        ("complete", "light", False),
        ("broken", "dark", False),
        ("judged", "light", True),
        ("two-stacks", "dark", True),
        ("comparison", "light", True),
        ("comparison", "dark", True),
        ("comparison", "dark", False),
        ("several", "light", True),
        ("several", "dark", True),
    ],
)
def test_axe_finds_nothing(open_page, files, name, scheme, scripts) -> None:
    package = pytest.importorskip(
        "axe_playwright_python", reason="axe is not installed: pip install axe-playwright-python"
    )
    source = resources.files(package.__name__).joinpath("axe.min.js").read_text(encoding="utf-8")
    page = open_page(files[name], scheme=scheme, fresh=True).page
    page.evaluate(UNFOLD)
    if not scripts:  # axe is a script: the pictures are shown as they are where none runs
        page.evaluate(SHOW_PICTURES)
    page.evaluate(source)
    found = page.evaluate("async () => (await window.axe.run()).violations")
    assert [(each["id"], each["nodes"][0]["html"][:200]) for each in found] == []


@pytest.mark.parametrize("scripts", [True, False])
@pytest.mark.parametrize(
    "name", ["complete", "evil", "two-stacks", "comparison", "evil-comparison", "several"]
)
def test_nothing_overflows(open_page, files, name, scripts) -> None:
    page = open_page(files[name], fresh=True, scripts=scripts).page
    page.evaluate(UNFOLD)
    for width in (1280, 800, 360):
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_timeout(300)  # charts are drawn anew at another width
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_link_of_a_finding_lands_on_its_plot_with_ring_and_threshold(open_page, files) -> None:
    page = open_page(files["complete"]).page
    page.get_by_role("link", name="See it: Largest value").click()
    figure = page.locator("figure:target")
    assert figure.get_attribute("id") == "chart-largest_value"
    box = figure.bounding_box()
    assert box is not None and -1 <= box["y"] < 900
    spec = json.loads(page.locator("#charts").text_content())["largest_value"]
    texts = [row.get("text") for layer in spec["layer"] for row in layer["data"]["values"]]
    assert "ND304 above 100" in texts
    rings = spec["layer"][-1]["data"]["values"]
    assert [row["site"] for row in rings] == list(REPORT.findings[0].ids)


@pytest.mark.parametrize(("name", "least"), [("judged", 30), ("comparison", 1)])
def test_the_link_of_every_card_lands_on_a_figure_in_sight(open_page, files, name, least) -> None:
    page = open_page(files[name]).page
    links = page.locator(".card a").all()
    assert len(links) >= least
    for link in links:
        link.click()
        figure = page.locator("figure:target")
        assert f"#{figure.get_attribute('id')}" == link.get_attribute("href")
        box = figure.bounding_box()
        assert box is not None and -1 <= box["y"] < 900
        page.evaluate("location.hash = ''")


@pytest.mark.parametrize("name", ["judged", "comparison", "several"])
def test_every_link_lands(open_page, files, name) -> None:
    page = open_page(files[name]).page
    targets = [each.get_attribute("href") for each in page.locator("nav a, .chips a").all()]
    assert targets
    for target in targets:
        assert page.locator(target).count() == 1


@pytest.mark.parametrize(
    ("name", "series", "read"),
    [
        ("stream_norm", "mean over tokens", lambda at: at["out_norm"]["mean"]),
        ("update_ratio", "median over tokens", lambda at: at["update_ratio"]["median"]),
        ("cosine", "median over tokens", lambda at: at["cosine"]["median"]),
        ("largest_value", "largest |y|", lambda at: at["max_abs"]),
    ],
)
def test_what_the_browser_plots_is_the_json(open_page, files, name, series, read) -> None:
    page = open_page(files["complete"]).page
    plotted = {site: y for found, site, y in page.evaluate(POINTS, name) if found == series}
    stream = json.loads(json.dumps(REPORT.to_dict()))["measurements"]["stream"]
    assert plotted == {site: read(at) for site, at in stream.items()}


def test_the_curve_at_initialisation_is_that_of_the_json(open_page, files) -> None:
    page = open_page(files["complete"]).page
    name = "at initialisation, without the first token"
    plotted = {site: y for found, site, y in page.evaluate(POINTS, "stream_norm") if found == name}
    growth = REPORT.to_dict()["measurements"]["growth"]["model.layers"]
    assert plotted == growth["init_norms"] and plotted


@pytest.mark.parametrize(
    ("name", "series", "read"),
    [
        ("both_streams", "A", lambda at: at["a_norm"]),
        ("both_streams", "B", lambda at: at["b_norm"]),
        ("stream_error", "what rounding explains", lambda at: at["tolerance"]),
    ],
)
def test_what_a_comparison_plots_is_its_json(open_page, files, name, series, read) -> None:
    page = open_page(files["comparison"]).page
    plotted = {site: y for found, site, y in page.evaluate(POINTS, name) if found == series}
    held = {at["a"]: read(at) for at in COMPARED.to_dict()["stream"]}
    assert plotted == {site: value for site, value in held.items() if value is not None}
    assert plotted


def test_a_heat_map_reads_out_the_number_below_the_pointer(open_page, files) -> None:
    page = open_page(files["complete"]).page
    figure = page.locator("#chart-tokens_out_norm_0")
    figure.scroll_into_view_if_needed()
    canvas = figure.locator("canvas")
    box = canvas.bounding_box()
    left, top, width, height = page.evaluate(FRAME, "tokens_out_norm_0")
    held = REPORT.trace[0].out_norm
    site, token = list(held)[5], 3
    page.mouse.move(
        box["x"] + left + (token + 0.5) * width / 8,
        box["y"] + top + 5.5 * height / len(held),
    )
    text = figure.locator(".read-out").text_content()
    assert text.startswith(f"token 3 “t3” · {site} · ||y|| ")
    assert math.isclose(float(text.split()[-1]), held[site][token], rel_tol=6e-3)


def test_hostile_names_are_text(open_page, files) -> None:
    opened = open_page(files["evil"])
    assert opened.page.locator("h1").text_content() == EVIL
    assert opened.page.locator("img").count() == 0
    names = opened.page.evaluate(
        "() => JSON.parse(document.getElementById('map-values').textContent)"
    )
    assert names["tokens_out_norm_0"]["tokens"][0] == EVIL
    figure = opened.page.locator("#chart-tokens_out_norm_0")
    figure.locator("canvas").hover(position={"x": 200, "y": 60})
    assert "token" in figure.locator(".read-out").text_content()
    assert opened.console == [] and opened.page.locator("img").count() == 0


@pytest.mark.parametrize("name", ["evil-comparison", "several"])
def test_hostile_names_are_text_on_other_pages(open_page, files, name) -> None:
    opened = open_page(files[name])
    assert EVIL in opened.page.locator("body").text_content()
    assert opened.page.locator("img").count() == 0 and opened.console == []


def test_a_tooltip_shows_site_and_value_and_is_text(open_page, files) -> None:
    page = open_page(files["complete"]).page
    figure = page.locator("#chart-token_likeness")
    figure.scroll_into_view_if_needed()
    canvas = figure.locator("canvas")
    box = canvas.bounding_box()
    left, top, _, _ = page.evaluate(FRAME, "token_likeness")
    x, y = page.evaluate(PLACE_OF_POINT)
    page.mouse.move(box["x"] + left + x - 20, box["y"] + top + y - 20)
    page.mouse.move(box["x"] + left + x, box["y"] + top + y)
    tip = page.locator("#vg-tooltip-element.visible")
    tip.wait_for()
    assert "model.layers.2/add#0" in tip.text_content() and "0.31" in tip.text_content()
