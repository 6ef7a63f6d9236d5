"""Several reports in one document."""

from __future__ import annotations

import json
import random

import pytest
from jsonschema import Draft202012Validator
from referencing import Registry, Resource

from normdiag.errors import ExitCode, ReportError
from normdiag.report import schema, v1
from normdiag.report.gate import Gate, check_report
from normdiag.report.saved import load_report, load_reports
from normdiag.report.series import (
    Series,
    SeriesEntry,
    TargetFailure,
    entry_exit_code,
    natural_sort_key,
    series_exit_code,
)
from tests import evil
from tests.hostile import broken
from tests.reports import bert, llama


def failure(code):
    return SeriesEntry(target="x", failure=TargetFailure(what="what", hint=None, exit_code=code))


def entries():
    return (
        SeriesEntry(target="ckpt-2", report=check_report(llama(2), Gate())),
        failure(3),
        SeriesEntry(target="ckpt-10", report=check_report(broken(), Gate(), llama(2), "a.json")),
    )


def test_saved_and_loaded_it_is_the_same(tmp_path):
    series = Series(exit_code=3, reports=entries())
    series.save(tmp_path / "all.json")
    again = load_reports(tmp_path / "all.json")
    assert v1.dump_record(again) == v1.dump_record(series)  # NaN is not equal to itself
    assert list(json.loads((tmp_path / "all.json").read_text())) == [
        "schema_version",
        "exit_code",
        "reports",
    ]
    llama(2).save(tmp_path / "one.json")
    assert load_reports(tmp_path / "one.json") == llama(2)


def test_where_one_report_is_wanted_several_are_refused(tmp_path):
    Series(exit_code=0, reports=()).save(tmp_path / "all.json")
    with pytest.raises(ReportError, match="several targets"):
        load_report(tmp_path / "all.json")


def test_a_newer_minor_version_is_read_and_a_newer_major_one_is_not(tmp_path):
    path = tmp_path / "all.json"
    Series(exit_code=0, reports=entries()[:1]).save(path)
    document = json.loads(path.read_text())
    path.write_text(json.dumps(document | {"schema_version": "1.9", "more": 1}))
    assert load_reports(path).reports == entries()[:1]
    path.write_text(json.dumps(document | {"schema_version": "2.0"}))
    with pytest.raises(ReportError, match=r"schema version 2\.0"):
        load_reports(path)
    path.write_text(json.dumps(document | {"reports": [{}]}))
    with pytest.raises(ReportError, match="reports > 0 > target"):
        load_reports(path)


def test_the_committed_schema_is_the_generated_one():
    """Write it anew with schema.SERIES.write_text(schema.generate_series())."""
    assert schema.SERIES_SCHEMA.read_text(encoding="utf-8") == schema.generate_series_schema()


def test_a_series_keeps_to_the_schema(tmp_path):
    report, series = (
        json.loads(path.read_text(encoding="utf-8"))
        for path in (schema.REPORT_SCHEMA, schema.SERIES_SCHEMA)
    )
    registry = Registry().with_resource(schema.REPORT_SCHEMA.name, Resource.from_contents(report))
    validator = Draft202012Validator(series, registry=registry)
    for reports in (entries(), evil.series("\x1b").reports):
        Series(exit_code=3, reports=reports).save(tmp_path / "all.json")
        document = json.loads((tmp_path / "all.json").read_text())
        validator.validate(document)
        document["reports"][0]["report"]["findings"] = 3
        assert not validator.is_valid(document)


def test_numbers_in_names_count_as_numbers():
    names = ["ckpt-1", "ckpt-2", "ckpt-10", "ckpt-10/", "ckpt-100-a2", "ckpt-100-a10", "last"]
    shuffled = random.Random(0).sample(names, len(names))
    assert sorted(shuffled, key=natural_sort_key) == names
    assert natural_sort_key("9" * 5000)


@pytest.mark.parametrize(
    ("codes", "code"),
    [
        ((), 0),
        ((0, 0), 0),
        ((0, 4), 4),
        ((4, 1), 1),
        ((1, 2), 2),
        ((3, 1, 2), 3),
        ((3, 5), 5),
    ],
)
def test_the_worst_exit_code_counts(codes, code):
    assert series_exit_code(tuple(failure(each) for each in codes)) == code


def test_the_exit_code_of_a_report_is_that_of_its_check():
    assert [entry_exit_code(entry) for entry in entries()] == [
        ExitCode.PASSED,
        ExitCode.TARGET,
        ExitCode.GATE_FAILED,
    ]
    assert entry_exit_code(SeriesEntry(target="x", report=bert())) == ExitCode.PASSED
