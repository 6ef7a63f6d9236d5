"""The text of inspect: fits, obeys nothing, folds what is long and says what it folded."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from rich.cells import cell_len

from normdiag.evidence.architecture import Architecture
from normdiag.evidence.measurements import Measurements
from normdiag.render.interface import Options
from tests.hostile import broken
from tests.reports import bert, encoder_decoder, llama, weights_only
from tests.strategies import reports
from tests.traces import make_trace
from tests.written import render_text

ALL = Options(all_rows=True)
VIEWS = [
    (make, view)
    for make in (llama, bert, encoder_decoder, broken, weights_only, make_trace)
    for view in ("inspect", "trace")
]


def join_lines(text: str) -> str:
    """The text as one line, however it was wrapped."""
    return " ".join(text.split())


def control_characters(text: str) -> set[str]:
    """Characters that a terminal would act on, the line break apart."""
    return {char for char in text if not char.isprintable() and char != "\n"}


@pytest.mark.parametrize(("make", "view"), VIEWS)
@pytest.mark.parametrize("width", [60, 80, 120, 200])
@pytest.mark.parametrize("options", [Options(), ALL])
def test_it_fits_the_width_and_obeys_nothing(make, view, width, options):
    text = render_text(make(), view, width=width, options=options)
    assert not control_characters(text)
    for line in text.splitlines():
        assert cell_len(line) <= width
        assert line == line.rstrip()


@pytest.mark.parametrize(("make", "view"), VIEWS)
def test_colour_only_repeats_what_the_words_say(make, view):
    coloured = render_text(make(), view, colour=True)
    assert "\x1b[" in coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == render_text(make(), view)


@given(reports())
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@pytest.mark.parametrize("view", ["inspect", "trace"])
def test_any_report_can_be_shown(view, report):
    for options in (Options(), ALL):
        text = render_text(report, view, options=options)
        assert not control_characters(text)
        assert all(cell_len(line) <= 80 for line in text.splitlines())


def test_markup_and_emoji_codes_are_left_as_they_are():
    report = replace(llama(2), subject=replace(llama().subject, target="[red]x[/red] :smile:"))
    assert render_text(report).startswith("[red]x[/red] :smile:\n")


def test_ascii_alone_is_written_where_nothing_else_can_be():
    text = render_text(broken(), encoding="ascii")
    assert "#" in text and "\\x1b[31m" in text
    assert render_text(make_trace(), "trace", encoding="latin-1")


def test_a_long_stack_shows_its_first_its_worst_and_its_last_layers():
    text = render_text(llama(24))
    shown = re.findall(r"^ +(\d+)  add#0", text, re.MULTILINE)
    assert shown == ["0", "1", "2", "4", "21", "22", "23"]
    assert "…  1 layer\n" in text and "…  16 layers\n" in text
    assert "6,556 (|y| = 812) at model.layers.4/add#1, channel 412" in join_lines(text)
    every = re.findall(r"^ +(\d+)  add#0", render_text(llama(24), options=ALL), re.MULTILINE)
    assert every == [str(layer) for layer in range(24)]


def test_norms_come_worst_first_and_the_rest_in_one_line():
    text = join_lines(render_text(llama(24)))
    assert "Norms 8 of 49, by eps share (if at least 1%), then kappa" in text
    assert "41 more norms: largest eps share 0.68%" in text
    assert "more norms" not in join_lines(render_text(llama(24), options=ALL))
    first_norms = re.findall(
        r"(\S+norm) branch-input", join_lines(render_text(llama(24), width=200))
    )
    assert first_norms[:2] == [
        "model.layers.0.input_layernorm",
        "model.layers.0.post_attention_layernorm",
    ]


def test_what_is_not_a_number_counts_as_worst():
    text = join_lines(render_text(broken(), width=200))
    table = text[text.index("Norms 6 of 6") :]
    assert table.index("model.layers.0.input_layernorm") < table.index("unattached")
    assert table.index("unattached") < table.index("model.layers.0.post_attention_layernorm")
    assert "no law, values are not finite" in text
    assert "Largest |y|: inf at model.layers.1/add#0" in text


def test_weights_that_were_not_loaded_are_said_loudly_and_first():
    text = join_lines(render_text(broken()))
    assert "! 1 norm parameter MISSING from the checkpoint" in text
    assert "1 other parameter MISSING" in text
    assert "! 1 norm parameter of another SHAPE" in text
    assert "1 other parameter in the checkpoint but NOT USED" in text
    assert text.index("MISSING") < text.index("Stacks") < text.index("Findings")


def test_the_first_value_that_is_not_finite_comes_with_both_operands():
    text = join_lines(render_text(broken()))
    assert "! aten.add.Tensor: 3 inf values at model.layers.1/add#0, layer 1" in text
    assert "skip: -61,000 to 63,000, all finite" in text
    assert "in float64: max |value| 72,000" in text


def test_findings_come_severest_first_with_all_that_is_known():
    text = join_lines(render_text(broken()))
    assert "Findings 1 error, 1 info" in text
    error = text.index("error ND203 non-finite-parameter (high confidence)")
    assert error < text.index("info ND301 epsilon-dominates (low confidence)")
    assert "value 2, threshold 0" in text
    assert "do restore the tensor from an earlier checkpoint" in text
    assert "more normdiag rules ND203" in text
    assert "and 2 more" in text


def test_rules_that_could_not_judge_are_never_silent():
    assert "Skipped: ND401 geometric-growth: needs 8 layers, has 3" in join_lines(
        render_text(bert())
    )


def test_coverage_folds_modules_and_names_the_proof():
    text = join_lines(render_text(broken()))
    assert "vision.layers.*.q (12 modules)" in text
    assert "Not recomputed: blocks." in text
    assert "bert.pooler (1 module with 1 inside)" in join_lines(render_text(bert()))
    assert (
        "of model.layers: 3.10e-7 (largest, at layer 12). Replay error of 49 norms and 48 adds, "
        "recomputed from their operands: 3.98e-7 (largest, at model.layers.23/add#1)"
    ) in join_lines(render_text(llama(24)))


def test_there_is_never_a_table_of_nothing():
    structure = replace(llama(), measurements=Measurements())
    text = render_text(structure)
    assert "Stacks  49 norms" in text
    assert "Stream of" not in text and "\nNorms" not in text and "error" not in text
    empty = render_text(replace(structure, architecture=Architecture()))
    assert "Stacks" not in empty
    assert "Findings" in empty and "Coverage" in empty
    assert "───" not in empty
