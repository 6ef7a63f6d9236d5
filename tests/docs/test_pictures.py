"""The pictures of the documentation show what they would show if they were made now."""

from __future__ import annotations

import json
import re
import struct
import zlib
from pathlib import Path

import pytest

from docs.generators.pictures import __main__ as pictures
from docs.generators.pictures import captions, gallery, pages, sections, terminal
from docs.generators.pictures.gallery import frame_picture, narrow_chart
from docs.generators.pictures.png_content import list_chunks, read_content, write_content
from docs.generators.pictures.sameness import is_same_picture
from normdiag.charts.registry import CHART_OF_RULE, CHARTS
from normdiag.charts.specification import Spec
from normdiag.report.report import Report
from normdiag.rules.registry import RULES

pytest.importorskip("vl_convert", reason="pip install 'normdiag[html]'")

ROOT = Path(__file__).parents[2]
SVG = '<svg width="90"><path d="M1.5,20L3,-4" stroke="#0072B2"/><text x="3">ND401 above 1.12</text>'
PICTURED = [rule for rule in RULES if rule.code in CHART_OF_RULE]


@pytest.mark.parametrize(
    ("old", "new", "is_same"),
    [
        ("M1.5,20", "M1.6,20", True),
        ("M1.5,20", "M1.5,26", False),
        ("L3,-4", "", False),
        ("#0072B2", "#0072B3", False),
        ("1.12", "1.121", True),
        ("1.12", "1.2", False),
        ("above", "below", False),
        ("<text", '<circle r="2"/><text', False),
        ("stroke=", "fill=", False),
    ],
)
def test_what_counts_as_a_change(old: str, new: str, is_same: bool) -> None:
    assert old in SVG
    assert is_same_picture(SVG, SVG.replace(old, new)) is is_same


def make_png() -> bytes:
    chunks = (
        (b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)),
        (b"tIME", b"1234567"),
        (b"IDAT", zlib.compress(b"\0\7", 0)),
        (b"IEND", b""),
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    )


@pytest.mark.parametrize("content", ["short", "ü≥σ " * 900])
def test_a_png_holds_its_content_and_its_pixels_but_no_time(content: str) -> None:
    written = write_content(make_png(), content)
    chunks = dict(list_chunks(written))
    assert read_content(written) == content
    assert zlib.decompress(chunks[b"IDAT"]) == b"\0\7"
    assert b"tIME" not in chunks
    with pytest.raises(ValueError, match="no content"):
        read_content(make_png())
    with pytest.raises(ValueError, match="no PNG"):
        read_content(b"GIF89a")


def test_the_content_of_a_page_ends_where_the_picture_does() -> None:
    page = '<meta http-equiv="x"><script>1</script><p>a</p><figure id="later"><p>b</p>'
    assert pages.select_content(page, "later") == "<p>a</p><figure "
    with pytest.raises(ValueError, match="no element"):
        pages.select_content(page, "elsewhere")


def test_a_caption_survives_the_picture() -> None:
    caption = captions.Caption(
        title="a < b & c",
        unit="]]>",
        sentences=("Healthy: </metadata>.",),
        thresholds=("ND401 above 1",),
        is_ringed=True,
        alternative='"seen" |here|',
        verdict="reported",
    )
    svg = frame_picture('<svg role="img"></svg>', caption)
    assert captions.read_caption(svg) == caption
    assert svg.count("</metadata>") == 1
    with pytest.raises(ValueError, match="no caption"):
        captions.read_caption("<svg></svg>")


def test_a_chart_for_half_a_column_leaves_the_other_one_alone() -> None:
    legend = {"columns": 2}
    spec = {"height": 90, "width": 720, "layer": [{"encoding": {"color": {"legend": legend}}}]}
    narrow = narrow_chart(spec)
    assert narrow["layer"][0]["encoding"]["color"]["legend"]["columns"] == 1
    assert (narrow["height"], legend["columns"]) == (90, 2)


@pytest.mark.parametrize("part", ["terminal", "broken", "comparison"])
def test_it_is_current(part: str) -> None:
    assert pictures.find_stale_pictures(part) == []


def test_a_missing_and_a_changed_picture_are_told(tmp_path: Path) -> None:
    path = tmp_path / "a.svg"
    assert pictures.describe_staleness(path, SVG) == "a.svg: missing"
    path.write_text(SVG)
    assert pictures.describe_staleness(path, SVG) == ""
    assert "something else" in pictures.describe_staleness(path, SVG.replace("1.12", "2"))


@pytest.mark.parametrize(
    "old", ["smallest, median and largest", "far from them", '"y": 1.0', "log"]
)
def test_a_chart_that_says_or_draws_something_else_is_noticed(
    old: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule = next(rule for rule in RULES if rule.name == "gain-level")
    shown = (ROOT / captions.path_of(rule, "silent")).read_text(encoding="utf-8")
    assert is_same_picture(shown, gallery.draw_side(rule, "silent"))
    draw = CHARTS["gains"]

    def draw_other(report: Report) -> Spec:
        text = json.dumps(draw(report), ensure_ascii=False)
        assert old in text
        return json.loads(text.replace(old, {'"y": 1.0': '"y": 1.1', "log": "sqrt"}.get(old, "?")))

    monkeypatch.setattr(gallery, "CHARTS", {**CHARTS, "gains": draw_other})
    assert not is_same_picture(shown, gallery.draw_side(rule, "silent"))


def test_an_unknown_part() -> None:
    assert pictures.main(["--check", "gallery"]) == 2


def test_no_picture_loads_or_tells_anything_else() -> None:
    for path in (ROOT / "docs" / "pictures").rglob("*.svg"):
        text = path.read_text(encoding="utf-8")
        assert set(re.findall(r"https?://[^\"' )]*", text)) <= {
            "http://www.w3.org/2000/svg",
            "http://www.w3.org/1999/xlink",
        }
        assert "<script" not in text
        assert str(ROOT) not in text


def test_they_are_small() -> None:
    sizes = {
        path.relative_to(ROOT / "docs" / "pictures"): path.stat().st_size
        for path in (ROOT / "docs" / "pictures").rglob("*.*")
    }
    assert sum(sizes.values()) < 4_000_000
    assert max(size for path, size in sizes.items() if path.parent.name == "rules") < 30_000
    assert max(size for path, size in sizes.items() if path.stem.startswith("broken")) < 300_000


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_the_page_of_a_rule_with_a_plot_shows_both_models(rule) -> None:
    page = sections.add_pictures("text\n\n## How to fix\n\nmore", rule)
    if rule not in PICTURED:
        assert page == "text\n\n## How to fix\n\nmore"
        return
    shown = re.findall(r'<img width="380" src="(.+?)" alt="(.+?)">', page)
    assert [(ROOT / "docs" / "rules" / path).resolve() for path, _ in shown] == [
        ROOT / captions.path_of(rule, side) for side in captions.SIDES
    ]
    assert all(len(alternative) > 40 for _, alternative in shown)
    for model in (rule.fires_on, rule.silent_on):
        assert f"`{model}`" in page
    rows = [line for line in page.splitlines() if line.startswith("| ")]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {3}


def test_only_pictures_of_rules_with_a_plot_are_there() -> None:
    wanted = {captions.path_of(rule, side).name for rule in PICTURED for side in captions.SIDES}
    assert {path.name for path in (ROOT / captions.FOLDER).iterdir()} == wanted
    assert terminal.PATH.parent == pages.FOLDER


SHOWN = [
    (page, alternative, source)
    for page in (ROOT / "README.md", ROOT / "docs" / "guides" / "pages.md")
    for pair in re.findall(
        r'!\[(.+?)\]\((.+?)\)|<img alt="(.+?)" src="(.+?)">', page.read_text(encoding="utf-8")
    )
    for alternative, source in [pair[:2] if pair[0] else pair[2:]]
]


@pytest.mark.parametrize(("page", "alternative", "source"), SHOWN, ids=lambda each: Path(each).name)
def test_what_is_said_of_a_picture_is_in_it(page: Path, alternative: str, source: str) -> None:
    path = page.parent / source
    data = path.read_bytes()
    content = read_content(data) if path.suffix == ".png" else data.decode()
    numbers = re.findall(r"\d+(?:\.\d+)?", re.sub(r"\w+LM2", "", alternative))
    assert [number for number in numbers if number not in content] == []
    dark = path.with_name(path.name.replace("light", "dark"))
    assert dark.exists()
    assert path.suffix == ".svg" or f'srcset="{source.replace("light", "dark")}"' in (
        page.read_text(encoding="utf-8")
    )


def test_the_pictures_of_pages_are_shown_somewhere() -> None:
    shown = {Path(source).stem for _, _, source in SHOWN}
    assert shown == {"terminal", *(f"{name}-light" for name in pages.PAGES)}
