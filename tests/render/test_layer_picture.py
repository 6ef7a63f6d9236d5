"""The drawing of a layer has its norms and adds where the data flow has them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from normdiag.charts.colours import THRESHOLD
from normdiag.evidence.architecture import Architecture, ResidualAdd, Scale, StreamBreak
from normdiag.findings import Finding
from normdiag.render.html.architecture_figure import draw_architecture
from normdiag.render.html.cards import list_cards
from normdiag.render.html.layer_kinds import format_layers, list_layer_kinds
from normdiag.render.html.layer_picture import WIDTH, draw_layer
from tests import reports
from tests.factories import add, norm, stack
from tests.render.test_html import EVIL

SVG = "{http://www.w3.org/2000/svg}"
STREAM, BRANCH = 62, 226


def make_architecture(*given: dict[str, object], layers: int = 4, **of_stack) -> Architecture:
    """A stack of `layers` layers, with an add of each of `given` in every one."""
    adds = [
        add("m", layer, k, len(given), **fields)
        for layer in range(layers)
        for k, fields in enumerate(given)
    ]
    adds = [_name_norms(each) for each in adds]
    ids = dict.fromkeys(id for each in adds for id in _list_norms(each))
    ends = [of_stack.get("embedding_norm"), of_stack.get("final_norm")]
    return Architecture(
        stacks=(stack("m", layers, **{"final_norm": None, **of_stack}),),
        norms=tuple(norm(id) for id in (*ids, *filter(None, ends))),
        residual_adds=tuple(adds),
    )


def _name_norms(each: ResidualAdd) -> ResidualAdd:
    """Names of norms are relative to the layer."""

    def full(ids: Collection[str]) -> tuple[str, ...]:
        return tuple(f"m.{each.layer}.{id}" for id in ids)

    single = {
        key: None if getattr(each, key) is None else full([getattr(each, key)])[0]
        for key in ("stream_norm", "skip_norm")
    }
    several = {key: full(getattr(each, key)) for key in ("input_norms", "output_norms")}
    return replace(each, inner_norms=full(each.inner_norms), **single, **several)


def _list_norms(each: ResidualAdd) -> list[str]:
    own = [each.stream_norm, each.skip_norm]
    norms = [*each.input_norms, *each.output_norms, *each.inner_norms]
    return [*norms, *(id for id in own if id is not None)]


def read_boxes(svg: str) -> list[tuple[str, float]]:
    """Name of a box, or + of an add, and where its middle stands; from top to bottom."""
    root = ElementTree.fromstring(svg)
    found = []
    for rect in root.iter(f"{SVG}rect"):
        if rect.get("stroke-dasharray") is None:
            x, y, wide = (float(rect.get(key, "")) for key in ("x", "y", "width"))
            texts = [
                text.text or ""
                for text in root.iter(f"{SVG}text")
                if float(text.get("x", "")) == x + wide / 2
                and y < float(text.get("y", "")) < y + 34
            ]
            found.append((y, texts[-1], x + wide / 2))
    found += [
        (float(circle.get("cy", "")), "+", float(circle.get("cx", "")))
        for circle in root.iter(f"{SVG}circle")
        if circle.get("r") == "9"
    ]
    return [(name, x) for _, name, x in sorted(found)]


def draw_first(architecture: Architecture, marked: Collection[str] = ()) -> str:
    (kind, *_) = list_layer_kinds(architecture, architecture.stacks[0])
    stack = architecture.stacks[0]
    return draw_layer(kind, marked, ahead=stack.embedding_norm, behind=stack.final_norm)


PRE = {"input_norms": ("a",)}
POST = {"input_norms": (), "stream_norm": "a"}


@pytest.mark.parametrize(
    ("given", "boxes"),
    [
        ([PRE], [("a", BRANCH), ("F", BRANCH), ("+", STREAM)]),
        ([POST], [("F", BRANCH), ("+", STREAM), ("a", STREAM)]),
        (
            [{"input_norms": ("a",), "output_norms": ("b",)}],
            [("a", BRANCH), ("F", BRANCH), ("b", BRANCH), ("+", STREAM)],
        ),
        (
            [{"input_norms": (), "output_norms": ("b",)}],
            [("F", BRANCH), ("b", BRANCH), ("+", STREAM)],
        ),
        (
            [{"input_norms": ("a", "b"), "branches": 2}],
            [("a", 176), ("b", 276), ("F₁", 176), ("F₂", 276), ("+", STREAM)],
        ),
        (
            [{"input_norms": ("a",), "branches": 2}],
            [("a", BRANCH), ("F₁", 176), ("F₂", 276), ("+", STREAM)],
        ),
        (
            [{"input_norms": ("a",), "skip_norm": "a"}],
            [("a", STREAM), ("F", BRANCH), ("+", STREAM)],
        ),
        (
            [{"input_norms": ("a",), "skip_norm": "b"}],
            [("a", BRANCH), ("b", STREAM), ("F", BRANCH), ("+", STREAM)],
        ),
        (
            [PRE, {"input_norms": ("b",)}],
            [
                *(("a", BRANCH), ("F", BRANCH), ("+", STREAM)),
                *(("b", BRANCH), ("F", BRANCH), ("+", STREAM)),
            ],
        ),
    ],
    ids=[
        "pre",
        "post",
        "sandwich",
        "branch-output",
        "parallel",
        "parallel of one norm",
        "normed-skip",
        "norm on the skip",
        "two adds",
    ],
)
def test_norms_stand_where_the_data_flow_has_them(given, boxes) -> None:
    assert read_boxes(draw_first(make_architecture(*given))) == boxes


def test_a_norm_behind_one_add_is_not_drawn_again_ahead_of_the_next() -> None:
    drawn = read_boxes(draw_first(reports.bert().architecture))
    assert [name for name, x in drawn if x == STREAM and name != "+"] == ["LayerNorm"] * 3


def test_norms_ahead_of_the_stack_and_behind_it_are_on_the_stream() -> None:
    drawn = read_boxes(draw_first(make_architecture(PRE, embedding_norm="e", final_norm="f")))
    assert drawn[0] == ("e", STREAM) and drawn[-1] == ("f", STREAM)


def test_layers_that_differ_are_another_kind_the_most_frequent_first() -> None:
    whole = make_architecture(PRE, {"input_norms": ("b",)})
    lost = replace(whole, residual_adds=whole.residual_adds[:2] + whole.residual_adds[3:])
    first, second = list_layer_kinds(lost, lost.stacks[0])
    assert (first.layers, second.layers) == ((0, 2, 3), (1,))
    assert (len(first.adds), len(second.adds)) == (2, 1)
    assert "× 3" in draw_layer(first, ()) and "× 1" in draw_layer(second, ())
    assert [kind.layers for kind in list_layer_kinds(whole, whole.stacks[0])] == [(0, 1, 2, 3)]


def test_numbers_of_layers_are_joined() -> None:
    assert format_layers((0, 1, 2, 5, 7, 8)) == "layers 0-2, 5, 7-8"
    assert format_layers((3,)) == "layer 3"


def test_scales_are_written_and_raw_readers_pass_the_norm() -> None:
    scale = Scale(kind="constant", value=0.144)
    svg = draw_first(make_architecture({**PRE, "branch_scale": scale}))
    assert ">× 0.144 <" in svg and 'stroke-dasharray="4 3"' not in svg
    raw = draw_first(make_architecture({**PRE, "raw_readers": ("m.0.kv",)}))
    assert 'stroke-dasharray="4 3"' in raw


@pytest.mark.parametrize("site", ["m.2/add#0", "m.2.a"])
def test_a_finding_in_any_layer_marks_its_site_in_the_drawn_one(site: str) -> None:
    architecture = make_architecture(PRE)
    mark = f'stroke="{THRESHOLD}" stroke-width="3"'
    assert draw_first(architecture, [site]).count(mark) == 1
    assert mark not in draw_first(architecture, ["n.2.a"])


def test_shapes_stay_within_the_picture() -> None:
    wide = make_architecture(
        {
            "input_norms": ("a" * 60, "b"),
            "branches": 2,
            "is_gated": True,
            "is_projected": True,
            "inner_norms": ("q", "k"),
        }
    )
    root = ElementTree.fromstring(draw_first(wide))
    for rect in root.iter(f"{SVG}rect"):
        assert float(rect.get("x", "")) >= 0
        assert float(rect.get("x", "")) + float(rect.get("width", "")) <= WIDTH
        assert float(rect.get("y", "")) + float(rect.get("height", "")) <= float(
            root.get("height", "")
        )
    assert {"gate g(x)", "P, projection", "2 norms inside"} <= {
        t.text for t in root.iter(f"{SVG}text")
    }


def test_hostile_names_are_text() -> None:
    svg = draw_first(make_architecture({"input_norms": (EVIL,)}, final_norm="\x1b[31m\udcff"))
    tags = {element.tag.removeprefix(SVG) for element in ElementTree.fromstring(svg).iter()}
    assert tags == {"svg", "rect", "path", "circle", "text"}
    assert "\x1b" not in svg and "\udcff" not in svg


def test_every_stack_is_drawn_and_what_is_not_is_said() -> None:
    drawing = draw_architecture(reports.encoder_decoder())
    assert drawing is not None
    assert [each.title for each in drawing.pictures] == ["encoder.block", "decoder.block"]
    base = reports.llama(4)
    gap = StreamBreak(first_module="l.2.q", last_module="l.2.o", stack="model.layers")
    lost = replace(base, architecture=replace(base.architecture, breaks=(gap,)))
    drawing = draw_architecture(lost)
    assert drawing is not None
    assert drawing.gaps == ("Not added to the stream: the branch from l.2.q to l.2.o.",)
    assert draw_architecture(reports.weights_only()) is None


def test_what_stands_ahead_of_two_stacks_is_drawn_ahead_of_the_first() -> None:
    base = reports.encoder_decoder()
    stacks = tuple(replace(stack, embedding_norm="stem") for stack in base.architecture.stacks)
    drawing = draw_architecture(
        replace(base, architecture=replace(base.architecture, stacks=stacks))
    )
    assert drawing is not None
    assert [">stem<" in each.svg for each in drawing.pictures] == [True, False]


def test_the_card_of_a_finding_on_placement_leads_to_the_drawing() -> None:
    finding = Finding(
        code="ND110",
        name="raw-branch-input",
        severity="warning",
        confidence="medium",
        ids=("model.layers.1/add#0",),
        message="x",
        value=None,
        threshold=None,
        advice="y",
    )
    report = replace(reports.llama(3), findings=(finding,))
    drawing = draw_architecture(report)
    assert drawing is not None and drawing.cards == ("ND110 raw-branch-input",)
    (card,) = list_cards(report, (), drawing)
    assert (card.chart, card.chart_title) == ("architecture", drawing.title)
    assert THRESHOLD in drawing.pictures[0].svg
