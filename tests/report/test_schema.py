"""The committed schema is the generated one, and every report keeps to it."""

from __future__ import annotations

import copy
import json

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings

from normdiag.report import schema
from tests.hostile import broken
from tests.reports import bert, encoder_decoder, llama, weights_only
from tests.strategies import reports
from tests.traces import make_trace


@pytest.fixture(scope="module")
def validator():
    document = json.loads(schema.REPORT_SCHEMA.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(document)
    return jsonschema.Draft202012Validator(document)


def test_the_committed_schema_is_the_generated_one():
    """Write it anew with schema.COMMITTED.write_text(schema.generate()), and look at the diff."""
    assert schema.REPORT_SCHEMA.read_text(encoding="utf-8") == schema.generate_report_schema()


@pytest.mark.parametrize("make", [llama, bert, encoder_decoder, broken, weights_only, make_trace])
def test_reports_keep_to_the_schema(validator, make):
    validator.validate(make().to_dict())


@given(report=reports())
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
def test_any_report_keeps_to_the_schema(validator, report):
    validator.validate(report.to_dict())


def test_what_another_version_adds_keeps_to_the_schema(validator):
    document = llama().to_dict() | {"schema_version": "1.9", "more": 1}
    document["subject"]["more"] = 1
    validator.validate(document)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda document: document.pop("schema_version"),
        lambda document: document.update(schema_version="2.0"),
        lambda document: document.pop("findings"),
        lambda document: document["subject"].update(parameters=1.5),
        lambda document: document["measurements"]["head_input"].update(rms="nan"),
        lambda document: document["architecture"]["stacks"][0].update(placement="sideways"),
        lambda document: document["architecture"]["norms"][0].pop("line"),
    ],
)
def test_what_is_not_a_report_does_not(validator, spoil):
    document = copy.deepcopy(llama().to_dict())
    assert validator.is_valid(document)
    spoil(document)
    assert not validator.is_valid(document)


def test_fields_carry_their_docstrings():
    fields = json.loads(schema.REPORT_SCHEMA.read_text(encoding="utf-8"))["$defs"][
        "AddMeasurement"
    ]["properties"]
    assert fields["update_ratio"]["description"] == "||u|| / ||x|| per token."
