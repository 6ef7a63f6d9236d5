"""`--format json` is the document that is saved."""

from __future__ import annotations

import json

import pytest

from normdiag.report import v1
from tests.hostile import broken
from tests.traces import traced
from tests.written import written


@pytest.mark.parametrize("view", ["inspect", "trace"])
@pytest.mark.parametrize("make", [broken, traced])
def test_it_is_the_document_whatever_the_width(view, make):
    text = written(make(), view, "json", width=20)
    assert text == v1.dump_record(make())
    assert json.loads(text) == make().to_dict()
