"""SARIF 2.1.0, for code scanning: one run per target, one result per finding.

Source: OASIS, Static Analysis Results Interchange Format 2.1.0. A result has a physical location,
since readers of SARIF leave out those without one: the target itself, line 1. The norms and adds
that it is about are its logical locations. Its fingerprint is made of the code and the ids, so a
finding keeps it when its numbers change.
"""

from __future__ import annotations

import hashlib
import json
import posixpath
import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote

from rich.console import Console

from normdiag.errors import ExitCode
from normdiag.findings import Finding
from normdiag.render.escape import escape_in_full, escape_text
from normdiag.render.interface import Options, RulePage
from normdiag.render.verdict import pair_with_statuses
from normdiag.report import v1
from normdiag.report.check import FindingStatus
from normdiag.report.report import Report
from normdiag.report.series import Series, SeriesEntry, TargetFailure

SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
LEVELS = {"error": "error", "warning": "warning", "info": "note"}
_LINK = re.compile(r"\[(?=[^\]]*\]\()")
_ARGUMENT = re.compile(r"\{(\d+)\}")
_STATES = {"new": "new", "worse": "updated", "known": "unchanged"}
_PROBLEM = {"error": "error", "warning": "warning", "info": "recommendation"}

Json = dict[str, Any]


def write_report(report: Report, console: Console, options: Options) -> None:
    """Write one run."""
    _write_runs(console, [_build_run(report.subject.target, report, options.pages)])


def write_series(series: Series, console: Console, options: Options) -> None:
    """Write one run per target; one without a report says why."""
    _write_runs(console, [_build_entry(entry, options.pages) for entry in series.reports])


def compute_fingerprint(finding: Finding) -> str:
    """Return what a finding is recognised by: its code and its ids, in any order."""
    text = "\0".join((finding.code, *sorted(finding.ids)))
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:32]


def _write_runs(console: Console, runs: list[Json]) -> None:
    log = {"$schema": SCHEMA, "version": "2.1.0", "runs": runs}
    # ASCII alone, as for the report itself: nothing in it reaches a terminal as a control.
    console.file.write(json.dumps(log, indent=1, ensure_ascii=True, allow_nan=False) + "\n")


def _build_entry(entry: SeriesEntry, pages: Mapping[str, RulePage]) -> Json:
    if entry.report is not None:
        return _build_run(entry.target, entry.report, pages)
    failure = entry.failure or TargetFailure(
        what="no report", hint=None, exit_code=ExitCode.INTERNAL
    )
    problem = {"level": "error", "message": _build_message(failure.what)}
    return {
        "tool": {"driver": {"name": "normdiag"}},
        "automationDetails": {"id": _name_category(entry.target)},
        "invocations": [
            {
                "executionSuccessful": False,
                "exitCode": failure.exit_code,
                "toolExecutionNotifications": [problem],
            }
        ],
        "results": [],
    }


def _build_run(target: str, report: Report, pages: Mapping[str, RulePage]) -> Json:
    codes = sorted({finding.code for finding in report.findings} | set(report.rules.passed))
    invocation: Json = {
        "executionSuccessful": True,
        "toolExecutionNotifications": [
            {
                "level": "note",
                "message": _build_message(f"{skip.code} {skip.name} skipped: {skip.why}"),
            }
            for skip in report.rules.skipped
        ],
    }
    if report.check is not None:
        invocation["exitCode"] = report.check.exit_code
    if report.subject.command is not None:
        invocation["commandLine"] = escape_text(report.subject.command)
    driver = {
        "name": "normdiag",
        "version": escape_text(report.subject.versions.normdiag),
        "rules": [_describe_rule(code, report.findings, pages) for code in codes],
    }
    return {
        "tool": {"driver": driver},
        "automationDetails": {"id": _name_category(target)},
        "invocations": [invocation],
        "columnKind": "unicodeCodePoints",
        # Without those that are gone: readers that know no baselineState would show them.
        "results": [
            _build_result(report, finding, status) | {"ruleIndex": codes.index(finding.code)}
            for finding, status in pair_with_statuses(report)
        ],
    }


def _describe_rule(code: str, findings: Iterable[Finding], pages: Mapping[str, RulePage]) -> Json:
    finding = next((each for each in findings if each.code == code), None)
    rule: Json = {"id": escape_text(code)}
    if finding is not None:
        rule["name"] = escape_text(finding.name)
        rule["defaultConfiguration"] = {"level": LEVELS[finding.severity]}
        rule["properties"] = {"problem.severity": _PROBLEM[finding.severity], "tags": ["normdiag"]}
    if code in pages:
        page = pages[code]
        rule["name"] = page.name
        rule["shortDescription"] = {"text": page.summary}
        rule["fullDescription"] = {"text": page.summary}
        rule["help"] = {"text": page.page, "markdown": page.page}
    elif finding is not None:
        rule["shortDescription"] = {"text": escape_text(finding.name)}
    return rule


def _build_result(report: Report, finding: Finding, status: FindingStatus | None) -> Json:
    mark = compute_fingerprint(finding)
    result: Json = {
        "ruleId": escape_text(finding.code),
        "level": LEVELS[finding.severity],
        "message": _build_message(f"{finding.message}. Do: {finding.advice}"),
        "locations": [_build_location(report.subject.target, finding.ids)],
        # The second is the one by which GitHub tells alerts on one line apart.
        "partialFingerprints": {"codeAndIds/v1": mark, "primaryLocationLineHash": f"{mark}:1"},
        "properties": {
            "confidence": finding.confidence,
            "value": None if finding.value is None else v1.wire_number(finding.value),
            "threshold": None if finding.threshold is None else v1.wire_number(finding.threshold),
        },
    }
    if status is not None and report.check is not None and report.check.baseline is not None:
        result["baselineState"] = _STATES[status.state]
    return result


def _build_location(target: str, ids: tuple[str, ...]) -> Json:
    logical = [
        {"fullyQualifiedName": escape_text(id), "kind": "module"} for id in dict.fromkeys(ids)
    ]
    physical = {"artifactLocation": {"uri": format_uri(target)}, "region": {"startLine": 1}}
    return {"physicalLocation": physical, **({"logicalLocations": logical} if logical else {})}


def format_uri(target: str) -> str:
    """Return a target as a URI reference: of a factory the file, of a path the normal one."""
    path, colon, _ = target.rpartition(":")
    name = posixpath.normpath(path if colon and path.endswith(".py") else target)
    # Half of a surrogate pair is no text; it is spelled out here as it is in the report.
    return ("file://" if name.startswith("/") else "") + quote(
        name.encode("utf-8", "backslashreplace")
    )


def _name_category(target: str) -> str:
    """Return the name under which runs of one target are compared with each other."""
    return f"normdiag/{escape_text(target).strip('/')}/"


def _build_message(text: str) -> Json:
    """Return a message; what looks like a link or an argument in it is neither."""
    shown = _LINK.sub(r"\\[", escape_in_full(text))
    return {"text": _ARGUMENT.sub(r"{{\1}}", shown)}
