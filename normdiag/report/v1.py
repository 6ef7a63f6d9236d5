"""Wire format, version 1: strict JSON. The only module that reads and writes JSON.

A non-finite number is one of the strings "NaN", "Infinity", "-Infinity". Keys come in the order of
the fields, sites in the order of the forward. Within 1.x there are only additions: a reader passes
over the keys of a newer minor version and refuses a newer major one.
"""

from __future__ import annotations

import gc
import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn, TypeVar

from pydantic import TypeAdapter, ValidationError

from normdiag.errors import ReportError

T = TypeVar("T")

VERSION = "1.0"
_SHOWN = 3
_ADAPTERS: dict[type, TypeAdapter[Any]] = {}
"""Built on first use, once: it costs more than reading a report."""
_REWRITE = "write it again with `normdiag inspect TARGET --json FILE`"


def to_document(report: object) -> dict[str, Any]:
    """Convert a record to JSON values."""
    plain: dict[str, Any] = _to_wire(
        _type_adapter(type(report)).dump_python(report, mode="python", by_alias=True)
    )
    return plain


def dump_record(report: object) -> str:
    """Return a record as JSON text, indented, one trailing newline."""
    # ASCII alone: a token or a module name in the text must not reach a terminal as a control
    # sequence or a bidirectional override, also where the JSON itself is what is printed.
    with _paused_collection():
        document = to_document(report)
        return json.dumps(document, indent=1, ensure_ascii=True, allow_nan=False) + "\n"


def load_record(text: str, kind: type[T], origin: str) -> T:
    """Read a record of `kind`; `origin` is what errors call the text ("'report.json'").

    Raises ReportError where the text is not JSON, not a report, damaged, or of another major.
    """
    return read_record(parse_document(text, origin), kind, origin)


def parse_document(text: str, origin: str) -> dict[str, Any]:
    """Parse a JSON object of a supported version. Raises ReportError."""
    try:
        document = json.loads(text, parse_constant=_reject_constant)
    except (ValueError, RecursionError) as error:
        raise ReportError(
            f"{origin} is not a normdiag report: not JSON ({error})",
            f"the file may be truncated or another document; {_REWRITE}",
        ) from error
    _require_version(document, origin)
    return dict(document)


def read_record(document: dict[str, Any], kind: type[T], origin: str) -> T:
    """Convert a parsed document to a record of `kind`. Raises ReportError where it is damaged."""
    version = document["schema_version"]
    # Additions of a newer minor version are dropped, so the record states this version.
    document = document | {"schema_version": VERSION}
    try:
        with _paused_collection():
            report: T = _type_adapter(kind).validate_python(document)
    except ValidationError as error:
        raise ReportError(
            f"{origin} is a damaged normdiag report: {_describe_problems(error)}",
            f"its schema version is {version}, this normdiag reads {VERSION}; {_REWRITE}",
        ) from error
    return report


@contextmanager
def _paused_collection() -> Iterator[None]:
    """Collect no garbage meanwhile: none of the many small objects of a document is any."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def wire_number(value: float) -> float | str:
    """Return a number, or its name where it is not finite."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _type_adapter(kind: type) -> TypeAdapter[Any]:
    if kind not in _ADAPTERS:
        _ADAPTERS[kind] = TypeAdapter(kind)
    return _ADAPTERS[kind]


def _to_wire(value: Any) -> Any:
    if isinstance(value, float):
        return wire_number(value)
    if isinstance(value, str):
        return value if value.isascii() else _escape_surrogates(value)
    if isinstance(value, dict):
        return {_to_wire(key): _to_wire(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_to_wire(item) for item in value]
    return value


def _escape_surrogates(value: str) -> str:
    # Half of a surrogate pair (a file name that is not UTF-8, a damaged tokenizer) is no text, and
    # strict readers refuse a document that has one; it becomes the visible `\udcff`.
    return value.encode("utf-8", "backslashreplace").decode("utf-8")


def _reject_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a JSON number")


def _require_version(document: Any, origin: str) -> None:
    version = document.get("schema_version") if isinstance(document, dict) else None
    major, dot, minor = version.partition(".") if isinstance(version, str) else ("", "", "")
    if not (dot and major.isdecimal() and minor.isdecimal()):
        raise ReportError(
            f"{origin} is JSON but not a normdiag report: it has no valid schema_version",
            _REWRITE,
        )
    if major != VERSION.partition(".")[0]:
        raise ReportError(
            f"{origin} has schema version {version}; this normdiag reads {VERSION} and later 1.x",
            _REWRITE if not major.strip("0") else "upgrade normdiag to read it",
        )


def _describe_problems(error: ValidationError) -> str:
    problems = error.errors(include_url=False, include_input=False, include_context=False)
    shown = [
        f"{_format_location(problem['loc'])}: {problem['msg']}" for problem in problems[:_SHOWN]
    ]
    if len(problems) > _SHOWN:
        shown.append(f"and {len(problems) - _SHOWN} more")
    return "; ".join(shown)


def _format_location(location: tuple[int | str, ...]) -> str:
    return " > ".join(str(part) for part in location)
