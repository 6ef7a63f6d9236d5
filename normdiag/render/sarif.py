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
from normdiag.render.escape import spelled, visible
from normdiag.render.interface import Options, RulePage
from normdiag.render.verdict import standing_of
from normdiag.report import v1
from normdiag.report.check import Standing
from normdiag.report.report import Report
from normdiag.report.series import Entry, Failure, Series

SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
LEVELS = {"error": "error", "warning": "warning", "info": "note"}
_LINK = re.compile(r"\[(?=[^\]]*\]\()")
_ARGUMENT = re.compile(r"\{(\d+)\}")
_STATES = {"new": "new", "worse": "updated", "known": "unchanged"}
_PROBLEM = {"error": "error", "warning": "warning", "info": "recommendation"}

Json = dict[str, Any]


def render(report: Report, console: Console, options: Options) -> None:
    """Write one run."""
    _write(console, [_run(report.subject.target, report, options.pages)])


def render_series(series: Series, console: Console, options: Options) -> None:
    """Write one run per target; one without a report says why."""
    _write(console, [_entry(entry, options.pages) for entry in series.reports])


def fingerprint(finding: Finding) -> str:
    """Return what a finding is recognised by: its code and its ids, in any order."""
    text = "\0".join((finding.code, *sorted(finding.ids)))
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:32]


def _write(console: Console, runs: list[Json]) -> None:
    log = {"$schema": SCHEMA, "version": "2.1.0", "runs": runs}
    # ASCII alone, as for the report itself: nothing in it reaches a terminal as a control.
    console.file.write(json.dumps(log, indent=1, ensure_ascii=True, allow_nan=False) + "\n")


def _entry(entry: Entry, pages: Mapping[str, RulePage]) -> Json:
    if entry.report is not None:
        return _run(entry.target, entry.report, pages)
    failure = entry.failure or Failure(what="no report", hint=None, exit_code=ExitCode.INTERNAL)
    problem = {"level": "error", "message": _message(failure.what)}
    return {
        "tool": {"driver": {"name": "normdiag"}},
        "automationDetails": {"id": _category(entry.target)},
        "invocations": [
            {
                "executionSuccessful": False,
                "exitCode": failure.exit_code,
                "toolExecutionNotifications": [problem],
            }
        ],
        "results": [],
    }


def _run(target: str, report: Report, pages: Mapping[str, RulePage]) -> Json:
    codes = sorted({finding.code for finding in report.findings} | set(report.rules.passed))
    invocation: Json = {
        "executionSuccessful": True,
        "toolExecutionNotifications": [
            {
                "level": "note",
                "message": _message(f"{skip.code} {skip.name} not judged: {skip.why}"),
            }
            for skip in report.rules.skipped
        ],
    }
    if report.check is not None:
        invocation["exitCode"] = report.check.exit_code
    if report.subject.command is not None:
        invocation["commandLine"] = visible(report.subject.command)
    driver = {
        "name": "normdiag",
        "version": visible(report.subject.versions.normdiag),
        "rules": [_rule(code, report.findings, pages) for code in codes],
    }
    return {
        "tool": {"driver": driver},
        "automationDetails": {"id": _category(target)},
        "invocations": [invocation],
        "columnKind": "unicodeCodePoints",
        # Without those that are gone: readers that know no baselineState would show them.
        "results": [
            _result(report, finding, standing) | {"ruleIndex": codes.index(finding.code)}
            for finding, standing in standing_of(report)
        ],
    }


def _rule(code: str, findings: Iterable[Finding], pages: Mapping[str, RulePage]) -> Json:
    finding = next((each for each in findings if each.code == code), None)
    rule: Json = {"id": visible(code)}
    if finding is not None:
        rule["name"] = visible(finding.name)
        rule["defaultConfiguration"] = {"level": LEVELS[finding.severity]}
        rule["properties"] = {"problem.severity": _PROBLEM[finding.severity], "tags": ["normdiag"]}
    if code in pages:
        page = pages[code]
        rule["name"] = page.name
        rule["shortDescription"] = {"text": page.summary}
        rule["fullDescription"] = {"text": page.summary}
        rule["help"] = {"text": page.page, "markdown": page.page}
    elif finding is not None:
        rule["shortDescription"] = {"text": visible(finding.name)}
    return rule


def _result(report: Report, finding: Finding, standing: Standing | None) -> Json:
    mark = fingerprint(finding)
    result: Json = {
        "ruleId": visible(finding.code),
        "level": LEVELS[finding.severity],
        "message": _message(f"{finding.message}. Do: {finding.advice}"),
        "locations": [_location(report.subject.target, finding.ids)],
        # The second is the one by which GitHub tells alerts on one line apart.
        "partialFingerprints": {"codeAndIds/v1": mark, "primaryLocationLineHash": f"{mark}:1"},
        "properties": {
            "confidence": finding.confidence,
            "value": None if finding.value is None else v1.number(finding.value),
            "threshold": None if finding.threshold is None else v1.number(finding.threshold),
        },
    }
    if standing is not None and report.check is not None and report.check.baseline is not None:
        result["baselineState"] = _STATES[standing.state]
    return result


def _location(target: str, ids: tuple[str, ...]) -> Json:
    logical = [{"fullyQualifiedName": visible(id), "kind": "module"} for id in dict.fromkeys(ids)]
    physical = {"artifactLocation": {"uri": uri(target)}, "region": {"startLine": 1}}
    return {"physicalLocation": physical, **({"logicalLocations": logical} if logical else {})}


def uri(target: str) -> str:
    """Return a target as a URI reference: of a factory the file, of a path the normal one."""
    path, colon, _ = target.rpartition(":")
    name = posixpath.normpath(path if colon and path.endswith(".py") else target)
    # Half of a surrogate pair is no text; it is spelled out here as it is in the report.
    return ("file://" if name.startswith("/") else "") + quote(
        name.encode("utf-8", "backslashreplace")
    )


def _category(target: str) -> str:
    """Return the name under which runs of one target are compared with each other."""
    return f"normdiag/{visible(target).strip('/')}/"


def _message(text: str) -> Json:
    """Return a message; what looks like a link or an argument in it is neither."""
    shown = _LINK.sub(r"\\[", spelled(text))
    return {"text": _ARGUMENT.sub(r"{{\1}}", shown)}
