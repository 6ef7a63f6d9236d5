"""The text of trace: who stands out, every token through the layers, one site in numbers."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from normdiag.errors import UsageError
from normdiag.render.interface import Options
from tests.reports import encoder_decoder, llama
from tests.traces import make_trace
from tests.written import render_text


def join_lines(text: str) -> str:
    return " ".join(text.split())


def lines_of(text: str, title: str) -> list[str]:
    """The lines of the first heat table under a title."""
    after = text[text.index(title) :].splitlines()[1:]
    return after[: next(i for i, line in enumerate(after) if "from:" in line) + 1]


def one(report, **changes):
    """The report with its first sequence alone, changed."""
    return replace(report, trace=(replace(report.trace[0], **changes),))


def long(tokens: int, hot: int):
    """A report of one long sequence with one large token at the last add."""
    report = make_trace(llama(2))
    norms = tuple(50.0 if place == hot else 2.0 for place in range(tokens))
    return one(
        report,
        text="long",
        ids=None,
        tokens=tuple(f"t{place}" for place in range(tokens)),
        special=(False,) * tokens,
        out_norm={add.id: norms for add in report.architecture.residual_adds},
        update_ratio={},
        input_var={},
        max_abs={},
        max_channel={},
    )


def test_the_sink_is_named_with_its_place_and_size():
    text = join_lines(render_text(make_trace(), "trace"))
    assert (
        'Outlier token 0 "<s>" (special), after 8 of 12 adds: stream norm 50.6 (10.4 × median '
        "token) at model.layers.2/add#0; max |y| 40.5 in channel 412."
    ) in text


def test_a_massive_activation_is_called_one():
    report = make_trace(llama(6))
    site = "model.layers.2/add#0"
    huge = {**report.trace[0].max_abs, site: (5000.0, 1.0, 1.0, 1.0, 1.0)}
    text = join_lines(render_text(one(report, max_abs=huge), "trace"))
    median = report.measurements.stream[site].median_abs
    assert 5000 / median > 1000
    assert "max |y| 5,000 in channel 412, a massive activation (" in text


def test_where_no_token_stands_out_that_is_said():
    report = make_trace()
    even = dict.fromkeys(report.trace[0].out_norm, (1.0, 1.0, 1.5, 1.0, 1.0))
    text = join_lines(render_text(one(report, out_norm=even), "trace"))
    assert (
        'No outlier token: largest stream norm 1.500 × the median token\'s, at token 2 "Ġcapital"'
    ) in text


def test_tokens_that_are_not_finite_stand_out_and_show():
    report = make_trace()
    lost = dict.fromkeys(report.trace[0].out_norm, (1.0, math.nan, 1.0, 1.0, math.inf))
    text = render_text(one(report, out_norm=lost), "trace")
    assert 'Outlier token 1 "The", after 12 of 12 adds: stream norm nan' in join_lines(text)
    rows = lines_of(text, "Stream norm")
    assert "!!!" in rows[2] and "! not finite" in rows[-1]
    allover = dict.fromkeys(report.trace[0].out_norm, (math.nan,) * 5)
    assert "!!!" in render_text(one(report, out_norm=allover), "trace")


def test_heat_has_one_row_per_token_and_one_column_per_layer():
    rows = lines_of(render_text(make_trace(llama(6)), "trace"), "Stream norm")
    assert rows[0].split() == ["0", "1", "2", "3", "4", "5", "largest"]
    assert rows[1].split()[:2] == ["0", "<s>"]
    assert rows[1].split()[2] == "······████████████"
    assert len(rows) == 1 + 5 + 1
    variance = lines_of(render_text(make_trace(llama(6)), "trace"), "Variance")
    assert variance[0].split()[-2:] == ["out", "smallest"]
    assert variance[1].split()[-1] == "0.00100"


def test_more_layers_than_room_are_folded_and_said_or_shown_in_parts():
    folded = render_text(make_trace(llama(60)), "trace")
    assert "each column stands for 2 neighbours: the largest" in folded
    assert "each column stands for 2 neighbours, the last for 1: the smallest" in folded
    parts = lines_of(
        render_text(make_trace(llama(60)), "trace", options=Options(all_rows=True)), "Stream norm"
    )
    assert parts[0].split()[0] == "0" and parts[6].split()[0] == "50"
    assert "each column" not in "".join(parts)


def test_a_long_sequence_keeps_its_ends_and_its_hottest_tokens():
    rows = lines_of(render_text(long(100, hot=57), "trace"), "Stream norm")
    names = [row.split()[1] for row in rows[1:-1]]
    assert names[:8] == [f"t{place}" for place in range(8)]
    assert names[-8:] == [f"t{place}" for place in range(92, 100)]
    assert "t57" in names
    assert sum("…" in row for row in rows) == 2
    every = lines_of(
        render_text(long(100, hot=57), "trace", options=Options(all_rows=True)), "Stream norm"
    )
    assert len(every) == 102


def test_sites_with_other_tokens_are_said_not_shown():
    report = make_trace(encoder_decoder())
    short = dict(report.trace[0].out_norm)
    for id in short:
        if id.startswith("decoder"):
            short[id] = (1.0, 2.0)
    variances = {id: v for id, v in report.trace[0].input_var.items() if id.startswith("encoder")}
    ratios = {id: v for id, v in report.trace[0].update_ratio.items() if id.startswith("encoder")}
    odd = one(report, out_norm=short, input_var=variances, update_ratio=ratios)
    text = join_lines(render_text(odd, "trace"))
    assert "Stream norm after each layer of encoder.block" in text
    assert "of decoder.block" not in text
    assert "decoder.block runs over other tokens (2 of them)" in text


def test_one_site_is_shown_in_numbers():
    site = "model.layers.2/add#1"
    text = render_text(make_trace(), "trace", options=Options(sites=(site,)))
    assert "add 5 of model.layers, pre" in text
    assert "Stream norm after" not in text
    row = next(line for line in text.splitlines() if "<s>" in line).split()
    assert row == ["0", "<s>", "54.7", "0.300", "43.7", "412"]
    norm = "model.layers.2.input_layernorm"
    row = next(
        line
        for line in render_text(make_trace(), "trace", options=Options(sites=(norm,))).splitlines()
        if "<s>" in line
    ).split()
    assert row == ["0", "<s>", "0.00506", "0.20%"]  # 1e-5 / (0.0050625 + 1e-5)


def test_a_long_site_is_folded():
    site = "model.layers.1/add#1"
    text = render_text(long(100, hot=57), "trace", options=Options(sites=(site,)))
    assert "… 80 more" in text
    assert "t57" in render_text(
        long(100, hot=57), "trace", options=Options(sites=(site,), all_rows=True)
    )


@pytest.mark.parametrize("format", ["text", "csv"])
def test_a_site_that_is_not_there_is_refused_with_near_ones(format):
    with pytest.raises(UsageError) as caught:
        render_text(make_trace(), "trace", format, options=Options(sites=("model.layers.2/add",)))
    assert "'model.layers.2/add'" in caught.value.what
    assert "model.layers.2/add#0" in caught.value.hint


def test_a_report_of_inspect_says_that_it_holds_no_tokens():
    assert "`normdiag trace` records them." in render_text(llama(2), "trace")
