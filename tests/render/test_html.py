"""The page as a file: one file without addresses, all text escaped, the same bytes each time."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from rich.console import Console

from normdiag.errors import UsageError
from normdiag.render.formats import COMPARISONS
from normdiag.render.html import extra, vega_bundle
from normdiag.render.html.figures import GROUPS
from normdiag.render.html.static_picture import draw_static
from normdiag.render.interface import Options
from normdiag.report.series import Series, SeriesEntry
from tests import hostile, reports
from tests.charts.reports import complete, make_tokens
from tests.render.test_comparison import comparison
from tests.written import render_text, written_series

pytest.importorskip("vl_convert", reason="pip install 'normdiag[html]'")

EVIL = "</script><img src=x onerror=alert(1)>&\"'<b>"
MEGABYTE = 1_000_000
VOID = {"meta", "img", "br", "input", "link"}


class Reader(HTMLParser):
    """The elements of a page, and the text that a reader sees or a script element holds."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.texts: dict[str, list[str]] = {}
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.setdefault(self.open[-1] if self.open else "", []).append(data)

    def data_of(self, id: str):
        """The JSON of the script element with that id."""
        at = [attrs.get("id") for tag, attrs in self.tags if tag == "script"].index(id)
        return json.loads(self.texts["script"][at])


def evil_report():
    """Hostile text as target, site, message, advice, class name and token."""
    base = complete(2, tokens=3)
    finding = replace(
        base.findings[0], message=EVIL, advice=EVIL, ids=(EVIL, base.findings[0].ids[0])
    )
    adds = tuple(replace(add, module=EVIL) for add in base.architecture.residual_adds)
    norms = tuple(replace(norm, class_=EVIL, line=EVIL) for norm in base.architecture.norms)
    tokens = make_tokens(base, 3, names=(EVIL, "\x1b[31m\u202e", "\udcff"))
    return replace(
        base,
        subject=replace(base.subject, target=EVIL, class_=EVIL),
        architecture=replace(base.architecture, residual_adds=adds, norms=norms),
        findings=(finding,),
        trace=(tokens,),
    )


@pytest.fixture(scope="module")
def page() -> str:
    return render_text(complete(tokens=8), format="html")


@pytest.fixture(scope="module")
def evil_page() -> str:
    return render_text(evil_report(), format="html")


def test_it_is_well_formed_and_every_chart_is_there_twice(page: str) -> None:
    read = Reader(page)
    assert not read.open
    names = {attrs["data-chart"] for _, attrs in read.tags if "data-chart" in attrs}
    assert names == read.data_of("charts").keys()
    drawable = {name for group in GROUPS.values() for name in group} - {"gain_histograms"}
    assert drawable <= names
    pictures = [attrs for tag, attrs in read.tags if tag == "svg" and attrs.get("role") == "img"]
    # one more is the drawing of the architecture, which no script draws
    assert len(pictures) == len(names) + 1 and all(attrs["aria-label"] for attrs in pictures)


def test_ids_are_unique_and_links_land(page: str) -> None:
    read = Reader(page)
    ids = [attrs["id"] for _, attrs in read.tags if attrs.get("id")]
    assert len(ids) == len(set(ids))
    links = {attrs["href"] for tag, attrs in read.tags if tag == "a"}
    assert "#chart-largest_value" in links
    assert all(link.removeprefix("#") in ids for link in links)


def test_nothing_is_loaded_and_the_policy_names_what_runs(page: str) -> None:
    read = Reader(page)
    for _, attrs in read.tags:
        assert not {"src", "onclick", "onload", "style"} & attrs.keys()
        href = attrs.get("xlink:href") or attrs.get("href") or "#"
        assert href.startswith(("#", "data:image/png;base64,"))
    policy = next(
        attrs["content"]
        for tag, attrs in read.tags
        if attrs.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy.startswith("default-src 'none'; ") and "unsafe" not in policy
    kinds = [attrs.get("type") for tag, attrs in read.tags if tag == "script"]
    code = [text for text, kind in zip(read.texts["script"], kinds, strict=True) if kind is None]
    for text in (*code, *read.texts["style"]):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy


def test_hostile_text_is_text(page: str, evil_page: str) -> None:
    calm, read = Reader(page), Reader(evil_page)
    assert not read.open
    kinds = {tag for tag, _ in read.tags}
    assert kinds <= {tag for tag, _ in calm.tags} | {"img"} and "img" not in kinds
    assert EVIL in "".join(read.texts["h1"])
    assert not any("onerror" in attrs for _, attrs in read.tags)
    tokens = read.data_of("map-values")["tokens_out_norm_0"]["tokens"]
    assert tokens == [EVIL, "\\x1b[31m\\u202e", "\\udcff"]


def test_the_same_bytes_each_time(page: str) -> None:
    assert render_text(complete(tokens=8), format="html") == page


@pytest.mark.parametrize(("layers", "most"), [(30, 2.5), (90, 4.0)])
def test_it_stays_small(layers: int, most: float) -> None:
    size = len(render_text(complete(layers, tokens=512), format="html").encode())
    assert 1.0 * MEGABYTE < size <= most * MEGABYTE


@pytest.mark.parametrize(
    "report",
    [reports.weights_only(), complete(1), reports.encoder_decoder(), hostile.broken()],
    ids=["weights-only", "one-layer", "two-stacks", "broken"],
)
def test_any_report_has_a_page(report) -> None:
    read = Reader(render_text(report, format="html"))
    assert not read.open
    has_figures = any(tag == "figure" for tag, _ in read.tags)
    assert has_figures == bool(report.architecture.stacks)


def test_every_number_of_the_tables_is_there() -> None:
    report = complete(30)
    text = " ".join(
        text for each in Reader(render_text(report, format="html")).texts.values() for text in each
    )
    for layer in range(30):
        assert f"model.layers.{layer}.input_layernorm" in text


def test_of_a_comparison() -> None:
    buffer = io.StringIO()
    COMPARISONS["html"](comparison(), Console(file=buffer), Options())
    read = Reader(buffer.getvalue())
    assert not read.open
    assert read.data_of("charts").keys() == {"both_streams", "stream_ratio", "stream_error"}
    text = " ".join(read.texts["h3"])
    assert "difference: epsilon" in text and "ND304 massive-activation" in text
    links = [attrs["href"] for tag, attrs in read.tags if tag == "a"]
    assert "#chart-stream_error" in links


def test_of_several_targets() -> None:
    entries = tuple(
        SeriesEntry(target=name, report=report)
        for name, report in (("first", complete(2)), (EVIL, reports.bert()))
    )
    read = Reader(written_series(Series(reports=entries, exit_code=0), "html"))
    assert not read.open
    assert {"first", EVIL} <= set(read.texts["h3"])


def test_without_the_extra_it_says_what_to_install(monkeypatch) -> None:
    monkeypatch.setattr(extra, "find_spec", lambda name: None if name == "vl_convert" else name)
    with pytest.raises(UsageError, match="vl_convert, which is not") as caught:
        render_text(complete(1), format="html")
    assert caught.value.hint == "pip install 'normdiag[html]'"


def test_the_bundle_is_made_once_and_kept_by_version(tmp_path: Path, monkeypatch) -> None:
    import vl_convert

    made = []
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(
        vl_convert, "javascript_bundle", lambda code: made.append(code) or "a='</script>'"
    )
    first, second = vega_bundle.read_bundle(), vega_bundle.read_bundle()
    assert first == second and len(made) == 1
    assert "</script" not in first and first.startswith("(function () {")
    assert re.fullmatch(r"vega-bundle-[\w.]+\.js", next((tmp_path / "normdiag").iterdir()).name)


def test_a_cache_that_cannot_be_written_costs_time_only(tmp_path: Path, monkeypatch) -> None:
    import vl_convert

    (tmp_path / "normdiag").write_text("a file where the folder would be")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(vl_convert, "javascript_bundle", lambda code: "made anew")
    assert "made anew" in vega_bundle.read_bundle()


def test_a_picture_has_no_style_and_ids_of_its_own() -> None:
    from normdiag.charts import CHARTS

    svg = draw_static("one", CHARTS["nearest_limits"](complete()))
    assert " style=" not in svg and "currentColor" in svg
    for id in re.findall(r'id="([^"]+)"', svg):
        assert id.startswith("one-") and f"url(#{id})" in svg
