"""The JSON Schema of wire format 1, generated from the records and their docstrings.

The committed files are the contract; `docs.generators.reference_pages` writes and checks them.
"""

from __future__ import annotations

import ast
import inspect
import json
import textwrap
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from normdiag.report.compare.comparison import Comparison
from normdiag.report.report import Report
from normdiag.report.series import Series

REPORT_SCHEMA = Path(__file__).parent / "schemas" / "report-v1.schema.json"
SERIES_SCHEMA = REPORT_SCHEMA.with_name("series-v1.schema.json")
"""The schema of a series; it refers to the file above."""
COMPARISON_SCHEMA = REPORT_SCHEMA.with_name("comparison-v1.schema.json")


def generate_report_schema() -> str:
    """Generate the schema of a report. Needs the source code, for the docstrings of fields."""
    return _format_schema(
        _build_schema(Report, "normdiag report, schema version 1", _SchemaGenerator)
    )


def generate_series_schema() -> str:
    """Generate the schema of a series, which refers to that of the report."""
    document = _build_schema(
        Series, "normdiag series of reports, schema version 1", _SeriesSchemaGenerator
    )
    document["$defs"][Report.__name__] = {"$ref": REPORT_SCHEMA.name}
    return _format_schema(document)


def generate_comparison_schema() -> str:
    """Generate the schema of a comparison."""
    return _format_schema(
        _build_schema(Comparison, "normdiag comparison, schema version 1", _SchemaGenerator)
    )


def _build_schema(kind: type, title: str, generator: type[GenerateJsonSchema]) -> dict[str, Any]:
    document = TypeAdapter(kind).json_schema(mode="serialization", schema_generator=generator)
    document["title"] = title
    document["properties"]["schema_version"] = {"type": "string", "pattern": r"^1\.[0-9]+$"}
    document["required"].insert(0, "schema_version")
    return {"$schema": GenerateJsonSchema.schema_dialect, **document}


def _format_schema(schema: dict[str, Any]) -> str:
    return json.dumps(schema, indent=2, ensure_ascii=True) + "\n"


class _SchemaGenerator(GenerateJsonSchema):
    """Non-finite numbers are strings; fields carry their docstrings."""

    def float_schema(self, schema: core_schema.FloatSchema) -> JsonSchemaValue:
        return {"anyOf": [{"type": "number"}, {"enum": ["NaN", "Infinity", "-Infinity"]}]}

    def dataclass_schema(self, schema: core_schema.DataclassSchema) -> JsonSchemaValue:
        document = super().dataclass_schema(schema)
        for name, description in _field_docstrings(schema["cls"]).items():
            document["properties"][name.rstrip("_")]["description"] = description
        return document

    def get_title_from_name(self, name: str) -> str:
        return name

    def field_title_should_be_set(self, schema: Any) -> bool:
        """Omit titles of fields, which would repeat the key."""
        return False


class _SeriesSchemaGenerator(_SchemaGenerator):
    """Leaves the report empty for a reference to its own schema."""

    def dataclass_schema(self, schema: core_schema.DataclassSchema) -> JsonSchemaValue:
        return {} if schema["cls"] is Report else super().dataclass_schema(schema)


def _field_docstrings(record: type) -> dict[str, str]:
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(record))).body
    assert isinstance(definition, ast.ClassDef)
    docstrings: dict[str, str] = {}
    for field, below in zip(definition.body, definition.body[1:], strict=False):
        match field, below:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(docstring))),
            ):
                docstrings[name] = inspect.cleandoc(docstring)
    return docstrings
