"""Whole outputs, as a person reads them; `conftest.py` says how to write them anew."""

from __future__ import annotations

import pytest

from normdiag.render.interface import Options
from tests.hostile import broken
from tests.reports import bert, encoder_decoder, llama, weights_only
from tests.traces import make_trace
from tests.written import render_text

ALL = Options(all_rows=True)
SITES = Options(sites=("model.layers.2/add#1", "model.layers.2.input_layernorm"))


@pytest.mark.parametrize(
    ("name", "report", "given"),
    [
        ("inspect-llama", llama(), {}),
        ("inspect-llama-120", llama(), {"width": 120}),
        ("inspect-llama-all", llama(14), {"options": ALL}),
        ("inspect-llama-ascii", llama(3), {"encoding": "ascii"}),
        ("inspect-bert", bert(), {}),
        ("inspect-encoder-decoder", encoder_decoder(), {}),
        ("inspect-broken", broken(), {}),
        ("inspect-weights-only", weights_only(), {}),
        ("inspect-llama.csv", llama(2), {"format": "csv"}),
        ("trace", make_trace(), {"view": "trace"}),
        ("trace-120", make_trace(), {"view": "trace", "width": 120}),
        ("trace-60-layers", make_trace(llama(60)), {"view": "trace"}),
        ("trace-60-layers-all", make_trace(llama(60)), {"view": "trace", "options": ALL}),
        ("trace-ascii", make_trace(), {"view": "trace", "encoding": "ascii"}),
        ("trace-sites", make_trace(), {"view": "trace", "options": SITES}),
        ("trace.csv", make_trace(llama(1)), {"view": "trace", "format": "csv"}),
    ],
)
def test_it_reads_as_reviewed(golden, name, report, given):
    golden(name if "." in name else f"{name}.txt", render_text(report, **given))
