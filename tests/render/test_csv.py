"""Flat rows: the same columns for every report, safe in a spreadsheet."""

from __future__ import annotations

import csv
import io

import pytest

from normdiag.render.interface import Options
from tests.hostile import HOSTILE, broken
from tests.reports import bert, encoder_decoder, llama, weights_only
from tests.traces import make_trace
from tests.written import render_text


def read_rows(report, view="inspect", **given):
    return list(csv.DictReader(io.StringIO(render_text(report, view, "csv", **given))))


@pytest.mark.parametrize("make", [bert, encoder_decoder, broken, weights_only])
def test_every_report_has_the_same_columns(make):
    assert render_text(make(), format="csv").splitlines()[0] == header("inspect")


def header(view):
    return render_text(make_trace(), view, "csv").splitlines()[0]


def test_inspect_has_one_row_per_site_with_what_was_measured():
    report = llama(2)
    found = {row["site"]: row for row in read_rows(report)}
    sites = (*report.architecture.norms, *report.architecture.residual_adds)
    assert list(found) == [*(site.id for site in sites), *report.measurements.layers]
    layer = found["model.layers/layer#1"]
    assert (layer["type"], layer["stack"], layer["layer"]) == ("layer", "model.layers", "1")
    assert (float(layer["block_influence"]), layer["gain.rms"]) == (0.2, "")
    add = found["model.layers.1/add#0"]
    seen = report.measurements.stream["model.layers.1/add#0"]
    assert add["type"] == "add" and add["layer"] == "1" and add["placement"] == "pre"
    assert float(add["out_norm.median"]) == seen.out_norm.median
    assert float(add["max_abs"]) == seen.max_abs
    assert add["input_var.median"] == "" and add["gain.rms"] == ""
    norm = found["model.layers.0.input_layernorm"]
    assert norm["role"] == "branch-input" and norm["gain.max_abs"] == "2.4"
    assert norm["top_channels"] == "412 7 96"
    jacobian = report.measurements.norms[norm["site"]].jacobian
    assert float(norm["jacobian.kappa.max"]) == jacobian.kappa.max
    assert float(norm["replay.max_rel_error"]) > 0


def test_numbers_that_are_not_finite_are_named_and_names_are_visible():
    found = {row["site"]: row for row in read_rows(broken())}
    assert found["model.layers.0.input_layernorm"]["gain.rms"] == "NaN"
    assert found["model.layers.1/add#0"]["max_abs"] == "Infinity"
    evil = r"blocks.\x1b[31m[red]0[/red]\u202e\r\nevil.norm"
    assert evil in found and f"{HOSTILE}.norm" not in found


def test_trace_has_one_row_per_token_and_site():
    report = make_trace(llama(2))
    found = read_rows(report, "trace")
    sites = len(report.architecture.norms) + len(report.architecture.residual_adds)
    assert len(found) == sites * (5 + 7)
    first = report.trace[0]
    row = next(
        row for row in found if row["site"] == "model.layers.1/add#1" and row["position"] == "3"
    )
    assert (row["sequence"], row["token"], row["token_id"]) == ("0", "Ġof", "103")
    assert row["special"] == "false" and found[0]["special"] == "true"
    assert float(row["out_norm"]) == first.out_norm["model.layers.1/add#1"][3]
    assert float(row["update_ratio"]) == first.update_ratio["model.layers.1/add#1"][3]
    assert row["max_channel"] == "10" and row["input_var"] == ""


def test_trace_can_be_cut_down_to_sites():
    found = read_rows(make_trace(), "trace", options=Options(sites=("model.norm",)))
    assert {row["site"] for row in found} == {"model.norm"}
    assert len(found) == 5 + 7


def test_tokens_are_visible_and_no_formula():
    tokens = {row["token"] for row in read_rows(make_trace(), "trace")}
    assert {r"\n", r"\x1b[31mred", "'=1+1", "日本語", " "} <= tokens


def test_a_negative_number_is_no_formula():
    minus = [row for row in read_rows(llama(2)) if row["cosine.median"].startswith("-")]
    assert minus and all(float(row["cosine.median"]) < 0 for row in minus)
