"""A comparison as a document: it keeps to its schema, and comes back as it was saved."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from normdiag.errors import ReportError
from normdiag.report import schema, v1
from normdiag.report.compare.compare import compare_reports
from normdiag.report.compare.comparison import Comparison
from normdiag.report.saved import load_saved
from tests.hostile import broken
from tests.reports import bert, llama


def comparisons() -> list[Comparison]:
    return [
        compare_reports(a, b)
        for a, b in ((llama(), llama()), (llama(3), bert()), (llama(2), broken()))
    ]


def test_the_committed_schema_is_the_generated_one() -> None:
    """Write it anew with schema.COMPARISON.write_text(schema.generate_comparison())."""
    assert (
        schema.COMPARISON_SCHEMA.read_text(encoding="utf-8") == schema.generate_comparison_schema()
    )


@pytest.mark.parametrize("made", comparisons())
def test_comparisons_keep_to_the_schema(made: Comparison) -> None:
    document = json.loads(schema.COMPARISON_SCHEMA.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(document)
    jsonschema.Draft202012Validator(document).validate(made.to_dict())


@pytest.mark.parametrize("made", comparisons())
def test_what_is_saved_comes_back(tmp_path: Path, made: Comparison) -> None:
    made.save(tmp_path / "saved.json")
    back = load_saved(tmp_path / "saved.json")
    assert isinstance(back, Comparison)
    assert v1.dump_record(back) == v1.dump_record(made)


def test_a_damaged_one_is_refused(tmp_path: Path) -> None:
    document = compare_reports(llama(), llama()).to_dict()
    del document["differences"]
    (tmp_path / "damaged.json").write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(ReportError, match="differences"):
        load_saved(tmp_path / "damaged.json")
