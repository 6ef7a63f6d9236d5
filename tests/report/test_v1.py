"""The wire format: strict, complete both ways, and plain about what it cannot read."""

from __future__ import annotations

import json
import math
from dataclasses import fields, replace

import pytest
from hypothesis import HealthCheck, given, settings

from normdiag.errors import ReportError
from normdiag.report import v1
from normdiag.report.report import Report
from tests.hostile import broken
from tests.reports import bert, encoder_decoder, llama, weights_only
from tests.strategies import reports
from tests.traces import make_trace

ALL = [llama, bert, encoder_decoder, broken, weights_only, make_trace]


def strictly(text: str):
    def refuse(constant: str):
        raise AssertionError(f"{constant} is no JSON")

    return json.loads(text, parse_constant=refuse)


def read(text: str) -> Report:
    return v1.load_record(text, Report, "'x.json'")


def list_fields(report: Report) -> list[str]:
    """Every field in full: the report's own repr is short."""
    return [repr(getattr(report, field.name)) for field in fields(report)]


@pytest.mark.parametrize("make", ALL)
def test_what_is_written_reads_back_the_same(make):
    # repr, since nan is not equal to itself
    assert list_fields(read(v1.dump_record(make()))) == list_fields(make())


@given(reports())
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
def test_any_report_reads_back_the_same(report):
    text = v1.dump_record(report)
    assert list_fields(read(text)) == list_fields(report)
    assert strictly(text) == report.to_dict()


def test_numbers_that_are_not_finite_are_named():
    document = strictly(v1.dump_record(broken()))
    growth = document["measurements"]["growth"]["model.layers"]
    assert growth["rate"] == "NaN" and growth["total"] == "Infinity"
    smallest = replace(broken().measurements.head_input, rms=-math.inf)
    report = replace(broken(), measurements=replace(broken().measurements, head_input=smallest))
    assert report.to_dict()["measurements"]["head_input"]["rms"] == "-Infinity"
    assert read(v1.dump_record(report)).measurements.head_input.rms == -math.inf


def test_names_of_numbers_read_back_wherever_a_number_may_stand():
    document = strictly(v1.dump_record(make_trace()))
    trace = document["trace"][0]
    site = next(iter(trace["out_norm"]))
    trace["out_norm"][site] = ["NaN", "Infinity", "-Infinity", 1, 2.5]  # dict of tuples
    norm = document["architecture"]["norms"][0]
    norm["eps"] = "Infinity"  # an optional
    report = read(json.dumps(document))
    seen = report.trace[0].out_norm[site]
    assert math.isnan(seen[0]) and seen[1:] == (math.inf, -math.inf, 1.0, 2.5)
    assert report.architecture.norms[0].eps == math.inf


def test_keys_come_in_the_order_of_the_contract():
    assert list(llama().to_dict()) == [
        "schema_version",
        "subject",
        "architecture",
        "measurements",
        "coverage",
        "findings",
        "rules",
        "trace",
        "check",
    ]
    assert "class" in llama().to_dict()["subject"], "class_ is only Python's spelling"
    assert llama().to_dict()["trace"] is None


def test_sites_come_in_the_order_of_the_forward():
    stream = strictly(v1.dump_record(llama()))["measurements"]["stream"]
    assert list(stream) == [add.id for add in llama().architecture.residual_adds]


def test_the_text_holds_nothing_a_terminal_obeys():
    text = v1.dump_record(broken())
    assert "\\u001b[31m" in text
    assert all(char == "\n" or " " <= char <= "~" for char in text)


def test_half_a_surrogate_pair_becomes_visible_text():
    odd = replace(llama(), subject=replace(llama().subject, target="a\udcffb"))
    odd = replace(
        odd,
        measurements=replace(
            odd.measurements, growth={"s\ud800": odd.measurements.growth["model.layers"]}
        ),
    )
    text = v1.dump_record(odd)
    text.encode("utf-8")
    assert read(text).subject.target == r"a\udcffb"
    assert list(read(text).measurements.growth) == [r"s\ud800"]


def test_a_newer_minor_version_is_read_and_its_additions_passed_over():
    document = llama().to_dict()
    document["schema_version"] = "1.7"
    document["weather"] = {"sky": "blue"}
    document["subject"]["mood"] = "good"
    document["architecture"]["norms"][0]["colour"] = ["red"]
    assert read(json.dumps(document)) == llama()


@pytest.mark.parametrize(
    ("text", "what", "hint"),
    [
        ("", "not JSON", "truncated"),
        (v1.dump_record(bert())[:1000], "not JSON", "truncated"),
        ('{"schema_version": "1.0", "x": NaN}', "NaN is not a JSON number", "truncated"),
        ("[" * 100_000, "not JSON", "truncated"),
        ('{"x": ' + "9" * 5000 + "}", "not JSON", "truncated"),
        ("[1, 2]", "no valid schema_version", "--json"),
        ('"text"', "no valid schema_version", "--json"),
        ('{"version": "2.1.0", "runs": []}', "no valid schema_version", "--json"),
        ('{"schema_version": 1}', "no valid schema_version", "--json"),
        ('{"schema_version": "1"}', "no valid schema_version", "--json"),
        ('{"schema_version": "2.0"}', "version 2.0; this normdiag reads 1.0", "upgrade"),
        ('{"schema_version": "10.3"}', "version 10.3", "upgrade"),
        ('{"schema_version": "0.9"}', "version 0.9", "write it again"),
        ('{"schema_version": "1.0"}', "subject: Field required", "reads 1.0"),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_reason_and_the_remedy(text, what, hint):
    with pytest.raises(ReportError) as caught:
        read(text)
    assert what in caught.value.what and "'x.json'" in caught.value.what
    assert hint in caught.value.hint


def test_a_damaged_report_names_the_places():
    document = llama().to_dict()
    document["subject"]["parameters"] = "many"
    document["architecture"]["norms"][3]["kind"] = "spectral"
    document["findings"] = None
    del document["rules"]
    document["coverage"]["skipped"] = [{}]
    with pytest.raises(ReportError) as caught:
        read(json.dumps(document))
    assert "subject > parameters: Input should be a valid integer" in caught.value.what
    assert "architecture > norms > 3 > kind: Input should be 'layernorm'" in caught.value.what
    assert "and 3 more" in caught.value.what
