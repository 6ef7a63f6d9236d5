"""Faults seen in the field, and healthy models that look faulty: what is said of each, as data.

A line of `expected.jsonl` names the builder, the findings that must come with their numbers, the
rules that must stay silent, and facts that the report must hold. Sizes of the stream are compared
with what plain hooks see.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import normdiag
from normdiag.cli.app import app
from normdiag.report.report import Report
from tests.cases import numbers, stored, wiring
from tests.cases.hooks import Seen, blocks_seen

HERE = Path(__file__).parent
LINES = [json.loads(line) for line in (HERE / "expected.jsonl").read_text().splitlines()]
RUN = [line for line in LINES if "error" not in line]
REFUSED = [line for line in LINES if "error" in line]
SEVERITIES = ("pass", "info", "warning", "error")


def build_case(case: str, directory: Path) -> Any:
    """Write the checkpoint; returns what its forward takes."""
    directory.mkdir(exist_ok=True)
    (build,) = [getattr(part, case) for part in (numbers, stored, wiring) if hasattr(part, case)]
    return build(directory)


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory):
    """Case -> its report, what hooks see of its blocks, and where it lies; each is made once."""
    folder = tmp_path_factory.mktemp("cases")

    @cache
    def report(case: str) -> tuple[Report, Seen]:
        inputs = build_case(case, folder / case)
        own = case == "functional_norms_of_own_code"
        line = next(line for line in RUN if line["case"] == case)
        found = normdiag.inspect(
            str(folder / case), inputs=inputs, trust_remote_code=own, measure=measures_of_case(line)
        )
        return found, blocks_seen(folder / case, inputs, line["blocks"])

    return report


def measures_of_case(line: dict[str, Any]) -> tuple[str, ...]:
    """What its findings rest on: blocks take most of the time."""
    judged = (*line["silent"], *(finding["code"] for finding in line["findings"]))
    codes = {code[:3] for code in judged}
    costly = (("jacobians", "ND5" in codes), ("defaults", "ND004" in judged))
    return ("stream", "norms", *(name for name, is_judged in costly if is_judged))


def format_lines(lines: list[dict[str, Any]]) -> Any:
    return pytest.mark.parametrize("line", lines, ids=lambda line: line["case"])


@format_lines(RUN)
class TestCase:
    def test_structure(self, line, reports) -> None:
        report, _ = reports(line["case"])
        stacks = {stack.id: [stack.placement, stack.layers] for stack in report.architecture.stacks}
        assert stacks == line["stacks"]
        assert len(report.architecture.norms) == line["norms"]

    def test_findings(self, line, reports) -> None:
        report, _ = reports(line["case"])
        for wanted in line["findings"]:
            own = [f for f in report.findings if f.code == wanted["code"]]
            assert own, [(f.code, f.message) for f in report.findings]
            finding = own[0]
            assert finding.severity == wanted["severity"]
            for words in wanted.get("says", ()):
                assert words in finding.message
            if "ids" in wanted:
                assert list(finding.ids) == wanted["ids"]
            if "value" in wanted:
                assert finding.value == pytest.approx(wanted["value"], rel=wanted.get("rtol", 1e-6))

    def test_silence(self, line, reports) -> None:
        report, _ = reports(line["case"])
        loud = [(f.code, f.message) for f in report.findings if f.code in line["silent"]]
        assert loud == []

    def test_gate(self, line, reports) -> None:
        """The most severe finding; controls pass at --fail-on warning."""
        report, _ = reports(line["case"])
        worst = max((SEVERITIES.index(f.severity) for f in report.findings), default=0)
        assert line["gate"] in ("any", SEVERITIES[worst])

    def test_facts(self, line, reports) -> None:
        report, _ = reports(line["case"])
        for kind, site, path, value, *tolerance in line["numbers"]:
            found = fact(report, kind, site, path)
            rel = tolerance[0] if tolerance else 1e-6
            if isinstance(value, (int, float)):
                assert found == pytest.approx(value, rel=rel, abs=1e-9), (site, path)
            else:
                assert found == value, (site, path)

    def test_sizes_of_the_stream(self, line, reports) -> None:
        """Entering each block and leaving the last one, against hooks."""
        report, seen = reports(line["case"])
        stack = next(s for s in report.architecture.stacks if s.id == line["blocks"])
        adds = [add for add in report.architecture.residual_adds if add.stack == stack.id]
        stream = report.measurements.stream
        assert len(seen.entering) == stack.layers
        for layer, size in enumerate(seen.entering):
            first = min((a for a in adds if a.layer == layer), key=lambda add: add.depth)
            assert stream[first.id].rms.skip == pytest.approx(size, rel=0.002, nan_ok=True)
        last = max(adds, key=lambda add: add.depth)
        out = stream[last.id].rms.out
        if last.stream_norm is not None:
            out = report.measurements.norms[last.stream_norm].output_rms
        else:
            largest = pytest.approx(seen.largest, rel=0.002, nan_ok=True)
            assert stream[last.id].max_abs == largest
        assert out == pytest.approx(seen.leaving, rel=0.002, nan_ok=True)


def fact(report: Report, kind: str, site: str, path: str) -> Any:
    """One value of the report: `path` below a norm, its gain, what was seen of it, and so on."""
    built = report.architecture
    rows = {
        "norm": {norm.id: norm for norm in built.norms},
        "gain": {norm.id: norm.gain for norm in built.norms},
        "add": {add.id: add for add in built.residual_adds},
        "stack": {stack.id: stack for stack in built.stacks},
        "seen": report.measurements.norms,
        "stream": report.measurements.stream,
    }
    value: Any = rows[kind][site]
    for name in path.split("."):
        value = getattr(value, name)
    return value


@pytest.mark.slow
@format_lines([line for line in RUN if line["gate"] in ("pass", "info")])
def test_a_sound_model_reaches_no_gate_with_everything_measured(line, tmp_path: Path) -> None:
    inputs = build_case(line["case"], tmp_path / "model")
    report = normdiag.inspect(str(tmp_path / "model"), inputs=inputs)
    loud = [(f.code, f.message) for f in report.findings if f.severity != "info"]
    assert loud == []


@format_lines(REFUSED)
def test_what_cannot_be_loaded_is_told_in_words(line, tmp_path: Path) -> None:
    build_case(line["case"], tmp_path / "model")
    done = CliRunner().invoke(app, ["check", str(tmp_path / "model")], prog_name="normdiag")
    assert done.exit_code == 3, done.stderr
    for words in line["error"]:
        assert words in done.stderr.replace("\n", " ")
    assert "Traceback" not in done.output + done.stderr


def test_every_builder_is_expected() -> None:
    builders = {
        name
        for part in (numbers, stored, wiring)
        for name, value in vars(part).items()
        if getattr(value, "__module__", None) == part.__name__ and not name.startswith("_")
    }
    assert {line["case"] for line in LINES} == builders
