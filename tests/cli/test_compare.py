"""`compare A B` on saved reports: formats, files and exit codes."""

import json
from dataclasses import replace

import pytest
from rich.cells import cell_len

from normdiag.findings import Finding
from tests import hostile, reports

NEW = Finding(
    code="ND301", name="epsilon-dominates", severity="warning", confidence="high",
    ids=("model.norm",), message="so", value=1.0, threshold=0.5, advice="this",
)  # fmt: skip


def with_epsilon(report, eps):
    norms = tuple(replace(norm, eps=eps) for norm in report.architecture.norms)
    return replace(report, architecture=replace(report.architecture, norms=norms))


@pytest.fixture
def pair(folder):
    """Files of a report and of one whose epsilons are others."""
    report = reports.llama(20)
    report.save(folder / "a.json")
    with_epsilon(report, 1e-6).save(folder / "b.json")
    return folder / "a.json", folder / "b.json"


def test_text_says_the_cause_first_and_fits(run, pair):
    result = run("compare", *pair)
    assert result.exit_code == 0
    assert "epsilon is 1e-05 in A and 1e-06 in B" in result.stdout.replace("\n", " ")
    assert result.stderr == ""
    assert max(map(cell_len, result.stdout.splitlines())) <= 80


def test_all_shows_every_add(run, pair):
    assert "model.layers.9/add#0" not in run("compare", *pair).stdout
    assert "model.layers.9/add#0" in run("compare", *pair, "--all").stdout


def test_json_is_what_is_saved(run, pair, folder):
    result = run("compare", *pair, "-f", "json", "--json", "saved.json")
    comparison = json.loads(result.stdout)
    assert (folder / "saved.json").read_text(encoding="utf-8") == result.stdout
    assert comparison["schema_version"] == "1.0"
    assert comparison["basis"] == "summaries"
    assert [each["kind"] for each in comparison["differences"]] == ["epsilon"]
    assert comparison["first_divergence"] is None
    assert len(comparison["stream"]) == 40


@pytest.mark.parametrize("form", ["text", "json", "markdown"])
def test_a_saved_comparison_is_rendered_as_it_was(run, pair, form):
    shown = run("compare", *pair, "--json", "saved.json", "-f", form).stdout
    assert run("render", "saved.json", "-f", form).stdout == shown
    assert run("render", "saved.json", "-f", "sarif").exit_code == 2


def test_markdown_goes_to_a_file(run, pair, folder):
    result = run("compare", *pair, "-f", "markdown", "-o", "note.md")
    assert (result.stdout, result.stderr) == ("", "1 difference; note.md written\n")
    assert "**error** epsilon: epsilon is" in (folder / "note.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("form", ["csv", "sarif", "junit", "github"])
def test_other_formats_are_refused(run, pair, form):
    result = run("compare", *pair, "-f", form)
    assert result.exit_code == 2
    assert "available formats: text, markdown, json" in result.stderr


class TestExitCode:
    """Never a failure unless it is asked for."""

    @pytest.mark.parametrize(
        ("fail_on", "code"), [(None, 0), ("never", 0), ("error", 1), ("warning", 1)]
    )
    def test_of_an_error(self, run, pair, fail_on, code):
        asked = () if fail_on is None else ("--fail-on", fail_on)
        assert run("compare", *pair, *asked).exit_code == code

    def test_of_the_same(self, run, pair):
        assert run("compare", pair[0], pair[0], "--fail-on", "info").exit_code == 0

    def test_of_other_values(self, run, pair, folder):
        report = reports.llama(20)
        norm, *rest = report.architecture.norms
        other = replace(norm, gain=replace(norm.gain, max_abs=3.0))
        architecture = replace(report.architecture, norms=(other, *rest))
        replace(report, architecture=architecture).save(folder / "c.json")
        words = ("compare", pair[0], "c.json", "--fail-on")
        assert run(*words, "error").exit_code == 0
        assert run(*words, "warning").exit_code == 1

    def test_of_what_cannot_be_compared(self, run, pair, folder):
        report = reports.llama(20)
        probe = replace(report.subject.probe, texts=("other",))
        replace(report, subject=replace(report.subject, probe=probe)).save(folder / "c.json")
        assert run("compare", pair[0], "c.json").exit_code == 0
        result = run("compare", pair[0], "c.json", "--require-complete")
        assert result.exit_code == 4
        assert "the streams are not compared" in result.stderr


def test_findings_are_judged_afresh(run, pair, folder):
    """What either file says of itself does not count: the rules of now judge both."""
    report = replace(reports.llama(20), findings=(NEW,))
    report.save(folder / "c.json")
    comparison = json.loads(run("compare", pair[0], "c.json", "-f", "json").stdout)
    assert comparison["changes"] == []


@pytest.mark.parametrize("form", ["text", "markdown"])
def test_hostile_names_are_made_visible(run, folder, form):
    a, b = hostile.broken(), with_epsilon(hostile.broken(), 1e-3)
    a.save(folder / "a.json")
    b.save(folder / "b.json")
    result = run("compare", "a.json", "b.json", "-f", form)
    assert result.exit_code == 0
    assert not {"\x1b", "\u202e", "\r"} & set(result.stdout)
    assert "\\x1b" in result.stdout


def test_options_that_two_reports_cannot_obey(run, pair):
    for option in (("--dtype", "float16"), ("--b-dtype", "float16"), ("--text", "a")):
        result = run("compare", *pair, *option)
        assert result.exit_code == 2
        assert "both are saved reports" in result.stderr


@pytest.mark.parametrize("broken", ["{", '{"schema_version": "2.0"}', None])
def test_a_file_that_is_no_report(run, pair, folder, broken):
    if broken is not None:
        (folder / "broken.json").write_text(broken, encoding="utf-8")
    result = run("compare", pair[0], "broken.json")
    assert (result.exit_code, result.stdout) == (3, "")
    assert "Traceback" not in result.stderr


def test_one_without_structure_is_refused(run, pair, saved):
    result = run("compare", pair[0], saved("weights_only"))
    assert result.exit_code == 2
    assert "has no structure to compare" in result.stderr
