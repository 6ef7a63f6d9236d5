"""`--format json` is the document that is saved."""

from __future__ import annotations

import json

import pytest

from normdiag.report import v1
from tests.hostile import broken
from tests.traces import make_trace
from tests.written import render_text


@pytest.mark.parametrize("view", ["inspect", "trace"])
@pytest.mark.parametrize("make", [broken, make_trace])
def test_it_is_the_document_whatever_the_width(view, make):
    text = render_text(make(), view, "json", width=20)
    assert text == v1.dump_record(make())
    assert json.loads(text) == make().to_dict()
