"""The section on number formats: a row each, and what would help in words."""

from __future__ import annotations

from dataclasses import replace

from normdiag.evidence.precision import FormatHeadroom, LogitBound, Precision, Remedy
from normdiag.evidence.statistics import MedianMax
from normdiag.report.report import Report
from tests.hostile import HOSTILE
from tests.reports import llama
from tests.written import render_text

ADD = "model.layers.2/add#1"


def half(**given) -> FormatHeadroom:
    fields = {
        "largest": 65504.0,
        "headroom": 0.78,
        "headroom_site": ADD,
        "square_headroom": None,
        "square_headroom_site": None,
        "absorbed_updates": {"a": 0.02, "b": 0.04, "c": 0.5},
        **given,
    }
    return FormatHeadroom(**fields)


def text(seen: Precision | None, **given) -> str:
    base = llama(3)
    report: Report = replace(base, measurements=replace(base.measurements, precision=seen))
    return " ".join(render_text(report, **given).split())


def section_text(**given) -> str:
    return text(Precision(formats={"float16": half(**given)}))


def test_without_it_there_is_no_section() -> None:
    assert "Number formats" not in text(None)
    assert "Number formats" not in text(Precision(formats={}))


def test_a_row_says_where_it_is_tightest_and_how_much_is_swallowed() -> None:
    assert f"float16 0.780× 4.0%, 50% 2 {ADD}" in section_text(underflowing_epsilons=("x", "y"))
    assert "float16 - - 0 -" in section_text(headroom=None, headroom_site=None, absorbed_updates={})


def test_the_sample_of_absorbed_updates_is_stated() -> None:
    over = "median and largest over the adds, over 8 sampled tokens"
    assert over.removesuffix(", over 8 sampled tokens") in section_text()
    assert over not in section_text()
    assert f"{over}." in section_text(absorbed_sample=8)
    both = {"float16": half(absorbed_sample=8), "bfloat16": half()}
    assert f"{over} (bfloat16: over all tokens)." in text(Precision(formats=both))


def test_the_remedy_is_a_power_of_two_with_its_price() -> None:
    remedy = Remedy(layer=5, factor=0.25, eps_share=MedianMax(median=0.001, max=0.0018))
    shown = section_text(remedies={"model.layers": remedy})
    assert "float16: stream of model.layers overflows from layer 5 on;" in shown
    assert "multiplied by 2^-2 it fits with a factor 2 to spare" in shown
    assert "its norms undo the scale, eps share up to 0.18%." in shown


def test_without_norms_in_front_of_every_reader_it_stays_in_float32() -> None:
    shown = section_text(remedies={"model.layers": Remedy(layer=5, factor=None, eps_share=None)})
    assert "overflows from layer 5 on; keep it in float32 from there." in shown


def test_squares_say_whether_they_overflowed_or_would() -> None:
    squares = {"square_headroom": 0.3, "square_headroom_site": "model.norm"}
    assert "in norms that square in float16; least headroom at model.norm." in section_text(
        **squares
    )
    seen = Precision(formats={"float16": half(**squares)}, square_formats={"model.norm": "float16"})
    assert "float16: squares overflow in this run; least headroom at model.norm." in text(seen)
    assert "squares overflow" not in section_text(
        square_headroom=1.0, square_headroom_site="model.norm"
    )


def test_gains_that_overflow_are_counted() -> None:
    assert "float16: overflow of 1 gain when cast, first model.norm." in section_text(
        overflowing_gains=("model.norm",)
    )


def test_formats_of_eight_bits_have_a_row_and_no_advice() -> None:
    remedy = Remedy(layer=0, factor=2.0**-9, eps_share=None)
    eight = half(largest=448.0, headroom=0.005, remedies={"model.layers": remedy})
    shown = text(Precision(formats={"float8_e4m3fn": eight}))
    assert "float8_e4m3fn 0.00500×" in shown and "overflows from" not in shown


def test_logits_are_bounded_by_the_worst_attention() -> None:
    bounds = {
        name: LogitBound(bound=bound, k_norm="k", scale=0.125, max_observed=seen)
        for name, bound, seen in (("q0", 120.0, 31.0), ("q1", 450.0, None))
    }
    shown = text(Precision(formats={"float16": half()}, logit_bounds=bounds))
    assert "at most 450 by the gains of q1 and its k norm." in shown


def test_names_from_outside_are_made_visible() -> None:
    bounds = {HOSTILE: LogitBound(bound=1.0, k_norm=HOSTILE, scale=1.0, max_observed=None)}
    names = {"headroom_site": HOSTILE, "square_headroom_site": HOSTILE, "square_headroom": 0.5}
    remedies = {HOSTILE: Remedy(layer=1, factor=None, eps_share=None)}
    found = half(**names, remedies=remedies, overflowing_gains=(HOSTILE,))
    shown = text(Precision(formats={"float16": found}, logit_bounds=bounds), colour=True)
    assert "\x1b[31m[red]" not in shown and "\u202e" not in shown
