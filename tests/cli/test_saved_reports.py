"""`render` and `check` on saved reports: what goes to stdout, to stderr and into the exit code."""

import json
from dataclasses import replace

import pytest
from rich.cells import cell_len

from normdiag.report.saved import load_report
from tests.cli.conftest import REPORTS


@pytest.mark.parametrize("name", REPORTS)
def test_render_gives_tables_and_one_line_about_them(run, saved, name):
    result = run("render", saved(name))
    assert result.exit_code == 0
    assert REPORTS[name]().subject.target.split("/")[0] in result.stdout
    assert result.stderr == ""
    assert len(result.stdout.splitlines()) <= 23 or REPORTS[name]().trace
    assert max(map(cell_len, result.stdout.splitlines())) <= 80


@pytest.mark.parametrize("name", REPORTS)
def test_render_as_json_is_the_report(run, saved, name):
    path = saved(name)
    result = run("render", path, "--format", "json")
    assert result.stdout == path.read_text(encoding="utf-8")


def test_the_summary_line_counts_what_was_found_and_skipped(run, saved):
    assert run("render", saved("llama"), "-f", "csv").stderr == "1 warning\n"
    assert run("render", saved("bert"), "-f", "csv").stderr == "no findings; 1 rule skipped\n"
    assert run("render", saved("broken"), "-f", "csv").stderr.startswith("1 error, 1 info")


def test_a_trace_is_shown_token_by_token(run, saved):
    report = REPORTS["traced"]()
    shown = run("render", saved("traced"), "-f", "csv").stdout.splitlines()
    assert shown[0].startswith("sequence,position,token_id,token,")
    site = report.architecture.residual_adds[0].id
    zoomed = run("render", saved("traced"), "-f", "csv", "--site", site).stdout.splitlines()
    assert len(zoomed) == 1 + sum(len(each.tokens) for each in report.trace)


def test_a_site_that_does_not_exist_is_refused(run, saved):
    result = run("render", saved("traced"), "--site", "model.layers.99/add#0")
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "model.layers.99/add#0" in result.stderr


def test_output_goes_to_the_file_and_not_to_stdout(run, saved, folder):
    path = saved("llama")
    shown = run("render", path, "--full").stdout
    result = run("render", path, "-o", "out.txt", "--json", "again.json")
    assert result.exit_code == 0
    assert result.stdout == ""
    assert result.stderr == "1 warning; out.txt written; again.json written\n"
    assert (folder / "out.txt").read_text(encoding="utf-8") == shown
    assert load_report("again.json") == REPORTS["llama"]()
    assert sorted(each.name for each in folder.iterdir()) == ["again.json", "llama.json", "out.txt"]


@pytest.mark.parametrize(
    ("where", "why"), [("none/out.txt", "does not exist"), (".", "is a directory")]
)
@pytest.mark.parametrize("option", ["--output", "--json"])
def test_a_file_that_cannot_be_written_is_refused_at_once(run, option, where, why):
    result = run("render", "not even looked at.json", option, where)
    assert result.exit_code == 2
    assert why in result.stderr


@pytest.mark.parametrize("where", ["new.txt", "old.txt"])
def test_a_folder_that_may_not_be_written_to_is_refused_at_once(run, folder, monkeypatch, where):
    (folder / "old.txt").write_text("old", encoding="utf-8")
    monkeypatch.setattr("os.access", lambda path, _: path != folder)
    result = run("render", "not even looked at.json", "--output", where)
    assert result.exit_code == 2
    assert f"cannot write '{where}': no permission" in result.stderr


def test_one_file_for_two_outputs_is_refused(run, saved, folder):
    result = run("render", saved("llama"), "--output", "a.txt", "--json", "./a.txt")
    assert result.exit_code == 2
    assert "--json and --output are both 'a.txt'" in result.stderr
    assert not (folder / "a.txt").exists()


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "No such file"),
        ("{", "not JSON"),
        ("{}", "no valid schema_version"),
        ('{"schema_version": "2.0"}', "upgrade normdiag"),
        ('{"schema_version": "1.0"}', "damaged"),
    ],
)
@pytest.mark.parametrize("command", ["render", "check"])
def test_a_report_that_cannot_be_read_is_exit_3(run, folder, command, content, why):
    if content is not None:
        (folder / "report.json").write_text(content, encoding="utf-8")
    result = run(command, "report.json")
    assert result.exit_code == 3
    assert result.stdout == ""
    assert why in result.stderr
    assert "Traceback" not in result.stderr


class TestCheck:
    """`check REPORT` judges afresh, and its exit code says what came out."""

    def severities(self, result):
        return {finding["severity"] for finding in json.loads(result.stdout)["findings"]}

    def test_what_was_judged_before_does_not_count(self, run, saved, folder):
        path = saved("llama")
        document = json.loads(path.read_text(encoding="utf-8"))
        document["findings"] = [document["findings"][0] | {"severity": "error"}]
        path.write_text(json.dumps(document), encoding="utf-8")
        result = run("check", path, "--select", "ND102", "-f", "json")
        assert result.exit_code == 0
        assert json.loads(result.stdout)["findings"] == []

    def test_an_error_fails_it(self, run, saved):
        result = run("check", saved("broken"), "-f", "json")
        assert "error" in self.severities(result)
        assert result.exit_code == 1

    @pytest.mark.parametrize(
        ("fail_on", "code"), [("error", 0), ("warning", 0), ("info", 1), ("never", 0)]
    )
    def test_fail_on(self, run, saved, fail_on, code):
        path = saved("llama")
        words = ("check", path, "--select", "ND304", "-f", "json", "--fail-on", fail_on)
        result = run(*words)
        assert self.severities(result) == {"info"}
        assert result.exit_code == code

    @pytest.mark.parametrize(
        ("fail_on", "code"), [("error", 0), ("warning", 1), ("info", 1), ("never", 0)]
    )
    def test_a_warning_fails_from_warning_on(self, run, folder, fail_on, code):
        report = REPORTS["llama"]()
        stream = dict(report.measurements.stream)
        add = "model.layers.3/add#0"
        ratio = replace(stream[add].update_ratio, median=1e-6)
        stream[add] = replace(stream[add], update_ratio=ratio)
        path = folder / "silent.json"
        replace(report, measurements=replace(report.measurements, stream=stream)).save(path)
        result = run("check", path, "--select", "ND402", "-f", "json", "--fail-on", fail_on)
        assert self.severities(result) == {"warning"}
        assert result.exit_code == code

    def test_the_settings_file_holds_and_the_command_line_goes_over_it(self, run, saved, folder):
        path = saved("llama")
        (folder / "normdiag.toml").write_text(
            'select = ["ND304"]\nfail_on = "info"', encoding="utf-8"
        )
        assert run("check", path).exit_code == 1
        assert run("check", path, "--fail-on", "error").exit_code == 0
        assert run("check", path, "--select", "ND102").exit_code == 0
        assert run("check", path, "--ignore", "ND304").exit_code == 0

    def test_thresholds_of_the_settings_file(self, run, saved, folder):
        path = saved("llama")
        settings = folder / "normdiag.toml"
        words = ("check", path, "--select", "epsilon-dominates", "--fail-on", "warning")
        assert run(*words).exit_code == 0
        settings.write_text("[thresholds.ND301]\neps_share = 0.001", encoding="utf-8")
        assert run(*words).exit_code == 1
        settings.write_text("[thresholds.ND301]\neps_shore = 0.001", encoding="utf-8")
        result = run(*words)
        assert result.exit_code == 2
        assert "eps_share" in result.stderr

    def test_the_verbose_are_told_what_holds(self, run, saved, folder):
        path = saved("llama")
        assert run("check", path, "-v").stderr.startswith("settings: none\n")
        settings = folder / "normdiag.toml"
        settings.write_text('ignore = { ND304 = "on purpose", ND4 = "" }', encoding="utf-8")
        told = f"settings: {settings}\nignored: ND304 (on purpose)\nignored: ND4\n"
        assert run("check", path, "-v").stderr.startswith(told)
        assert "settings" not in run("check", path).stderr

    @pytest.mark.parametrize("setting", ['ignore = ["ND999"]', "[thresholds.nobody]\na = 1"])
    def test_a_rule_that_does_not_exist_is_refused(self, run, saved, folder, setting):
        (folder / "normdiag.toml").write_text(setting, encoding="utf-8")
        result = run("check", saved("llama"))
        assert result.exit_code == 2
        assert "normdiag rules" in result.stderr

    def test_incomplete_evidence_is_exit_4_after_the_report_was_shown(self, run, saved):
        path = saved("weights_only")
        assert run("check", path, "--fail-on", "never").exit_code == 0
        result = run("check", path, "--fail-on", "never", "--require-complete")
        assert result.exit_code == 4
        assert result.stdout != ""
        assert "the evidence is incomplete" in result.stderr

    def test_require_complete_may_be_set(self, run, saved, folder):
        (folder / "normdiag.toml").write_text("require_complete = true", encoding="utf-8")
        assert run("check", saved("weights_only"), "--fail-on", "never").exit_code == 4

    def test_a_finding_goes_before_incomplete_evidence(self, run, saved):
        words = ("check", saved("broken"), "--require-complete")
        assert run(*words).exit_code == 1

    @pytest.mark.parametrize(
        "option", [("--device", "cuda"), ("--text", "a"), ("--measure", "norms"), ("--seed", "1")]
    )
    def test_what_a_saved_report_cannot_obey_is_refused(self, run, saved, option):
        result = run("check", saved("llama"), *option)
        assert result.exit_code == 2
        assert "saved report" in result.stderr


@pytest.mark.parametrize("name", ["llama", "weights_only"])
def test_a_site_of_a_report_without_tokens_is_refused(run, saved, name):
    result = run("render", saved(name), "--site", "model.norm")
    assert result.exit_code == 2 and "--site shows numbers of single tokens" in result.stderr
