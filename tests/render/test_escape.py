"""Nothing from outside reaches a terminal as anything but visible text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from normdiag.render.escape import escape_text
from normdiag.render.text.folded_names import fold_name

CHARS = st.characters(codec=None)  # half surrogates too


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("model.layers.3/add#0", "model.layers.3/add#0"),
        ("\x1b[31m", r"\x1b[31m"),
        ("\x9b2J", r"\x9b2J"),  # the one-character form of ESC [
        ("a\nb\r\tc\x07", r"a\nb\r\tc\x07"),
        ("abc\u202egnp.exe", r"abc\u202egnp.exe"),
        ("zero\u200bwidth\ufeff", r"zero\u200bwidth\ufeff"),
        ("half\udcff", r"half\udcff"),
        ("\u2028\u00a0", r"\u2028\xa0"),
        ("Ġcapital ▁of 日本語 🙂", "Ġcapital ▁of 日本語 🙂"),
    ],
)
def test_what_does_not_print_is_spelled_out(text, shown):
    assert escape_text(text) == shown


@given(st.text(CHARS, max_size=400))
def test_whatever_the_text_all_of_the_result_prints(text):
    shown = escape_text(text)
    assert shown.isprintable()
    shown.encode("utf-8")


def test_an_endless_text_loses_its_middle_and_says_so():
    shown = escape_text("a" * 500 + "\x1b" + "b" * 500)
    assert shown == "a" * 150 + "[.. 701 characters ..]" + "b" * 150


@pytest.mark.parametrize(
    ("name", "width", "lines"),
    [
        ("model.norm", 20, ["model.norm"]),
        ("model.layers.3.input_layernorm", 20, ["model.layers.3.", "input_layernorm"]),
        ("model.layers.3/add#0", 12, ["model.", "layers.3/", "add#0"]),
        ("a.very_long_name_of_a_norm", 12, ["a.very_long_", "name_of_a_", "norm"]),
        ("", 5, [""]),
        ("a\nb", 5, [r"a\nb"]),
    ],
)
def test_names_break_where_their_parts_do(name, width, lines):
    assert fold_name(name, width).split("\n") == lines


@given(st.text(CHARS, max_size=60), st.integers(1, 30))
def test_folding_loses_nothing_and_fits_where_the_parts_do(name, width):
    lines = fold_name(name, width).split("\n")
    assert "".join(lines) == escape_text(name)
    for line in lines:
        parts = line.strip("./_").replace("/", ".").replace("_", ".").split(".")
        assert cell_len(line) <= width or len([part for part in parts if part]) <= 1
