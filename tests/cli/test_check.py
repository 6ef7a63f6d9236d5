"""The gate of `check` as typed: baselines, bounds, reasons, formats. What they mean is tested in
`tests/report`."""

import json
from dataclasses import replace
from itertools import takewhile

import pytest

from normdiag.report.saved import load_report
from tests.cli.conftest import REPORTS

TOTAL = "measurements.growth.total"
ONE = ("--select", "ND304", "--fail-on", "info")


def verdict(result):
    """What stands behind the target, in the first line or over several."""
    lines = takewhile(lambda line: not line.startswith(" "), result.stdout.splitlines())
    return " ".join(lines).partition("  ")[2]


def check_of(result):
    return json.loads(result.stdout)["check"]


@pytest.fixture
def milder(folder):
    """The report `llama` without what ND304 finds in it."""
    report = REPORTS["llama"]()
    stream = {
        id: replace(add, max_abs=add.median_abs) for id, add in report.measurements.stream.items()
    }
    path = folder / "milder.json"
    replace(report, measurements=replace(report.measurements, stream=stream)).save(path)
    return path


def test_the_verdict_stands_in_the_first_line_or_in_the_last_section(run, saved):
    result = run("check", saved("llama"), *ONE)
    assert result.exit_code == 1
    assert verdict(result) == "failed: 1 info (ND304)" and result.stderr == ""
    whole = run("check", saved("llama"), *ONE, "--full")
    assert "\nVerdict  failed: 1 info (ND304)\n" in whole.stdout
    data = run("check", saved("llama"), *ONE, "-f", "json")
    assert data.stderr == "failed: 1 info (ND304)\n"


def test_a_target_that_passes_is_one_line(run, saved):
    assert run("check", saved("llama"), "--select", "ND102").stdout == (
        "org/small  passed: no finding is an error\n"
    )
    assert verdict(run("check", saved("llama"), "--select", "ND102")) == (
        "passed: no finding is an error"
    )


class TestBaseline:
    def test_only_what_is_new_fails(self, run, saved, milder):
        path = saved("llama")
        result = run("check", path, *ONE, "--baseline", milder)
        assert result.exit_code == 1
        assert verdict(result) == "failed: 1 new or worse info (ND304)"
        assert "new       ND304 massive-activation: not in the baseline" in result.stdout
        result = run("check", path, *ONE, "--baseline", path)
        assert result.exit_code == 0
        unchanged = "passed: compared with the baseline: 0 new, 0 worse, 1 known, 0 gone"
        assert verdict(result) == unchanged
        result = run("check", milder, *ONE, "--baseline", path)
        assert result.exit_code == 0
        assert "gone      ND304 massive-activation" in result.stdout

    def test_what_is_new_and_passes_is_told(self, run, saved, milder):
        words = ("check", saved("llama"), "--select", "ND304", "--baseline", milder)
        for fail_on in ("error", "never"):
            result = run(*words, "--fail-on", fail_on)
            assert result.exit_code == 0
            assert verdict(result) == (
                "passed: compared with the baseline: 1 new, 0 worse, 0 known, 0 gone; "
                f"--fail-on {fail_on} lets them pass"
            )

    def test_one_of_another_model_is_called_doubtful_in_the_verdict(self, run, saved):
        result = run("check", saved("bert"), "--baseline", saved("llama"), "--select", "ND102")
        assert result.exit_code == 0
        assert verdict(result).startswith("passed: compared with the baseline (doubtful): 0 new")

    def test_it_is_judged_by_the_rules_of_now(self, run, saved, folder):
        path = saved("llama")
        document = json.loads(path.read_text(encoding="utf-8")) | {"findings": []}
        (folder / "old.json").write_text(json.dumps(document), encoding="utf-8")
        assert run("check", path, *ONE, "--baseline", "old.json").exit_code == 0

    def test_the_margin_may_be_given_and_set(self, run, saved, folder):
        path = saved("llama")
        report = REPORTS["llama"]()
        (id,) = report.findings[0].ids
        add = report.measurements.stream[id]
        for name, factor in (("bit", 1.05), ("lot", 1.5)):
            stream = report.measurements.stream | {id: replace(add, max_abs=factor * add.max_abs)}
            more = replace(report, measurements=replace(report.measurements, stream=stream))
            more.save(folder / f"{name}.json")
        words = (*ONE, "--baseline", path)
        assert run("check", "bit.json", *words).exit_code == 0
        assert run("check", "lot.json", *words).exit_code == 1
        assert run("check", "bit.json", *words, "--margin", "0.01").exit_code == 1
        assert run("check", "lot.json", *words, "--margin", "1").exit_code == 0
        (folder / "normdiag.toml").write_text("margin = 0.01", encoding="utf-8")
        assert run("check", "bit.json", *words).exit_code == 1
        for wrong in ("-1", "nan", "inf"):
            assert run("check", "bit.json", *words, "--margin", wrong).exit_code == 2

    def test_one_that_cannot_be_read_is_exit_3_before_anything_is_run(self, run, folder):
        (folder / "old.json").write_text("{", encoding="utf-8")
        for path in ("old.json", "none.json"):
            result = run("check", "./nowhere", "--baseline", path)
            assert result.exit_code == 3
            assert path in result.stderr

    def test_it_is_in_the_report(self, run, saved, milder):
        check = check_of(run("check", saved("llama"), *ONE, "--baseline", milder, "-f", "json"))
        assert check["baseline"] | {"target": ""} == {
            "path": str(milder),
            "target": "",
            "margin": 0.1,
            "gone": [],
            "note": None,
        }
        (standing,) = check["finding_statuses"]
        assert (standing["state"], standing["fails"]) == ("new", True)


class TestBounds:
    @pytest.mark.parametrize(
        ("words", "code"),
        [
            (("--max", f"{TOTAL}=50"), 0),
            (("--max", f"{TOTAL}=2"), 1),
            (("--min", f"{TOTAL}=2"), 0),
            (("--min", f"{TOTAL}=50"), 1),
            (("--max", f"{TOTAL}=50", "--max", "measurements.norms.jacobian.kappa.max=1"), 1),
            (("--max", "measurements.growth[model.layers].total=5e1"), 0),
            (("--max", "measurements.gradients.global_norm=1"), 4),
            (("--max", "measurements.growth[nobody].total=1"), 4),
            (("--max", "measurements.grwoth.total=1"), 2),
            (("--max", TOTAL), 2),
            (("--max", f"{TOTAL}=x"), 2),
            (("--max", f"{TOTAL}=nan"), 2),
            (("--min", f"{TOTAL}=-inf"), 2),
            (("--max", "=1"), 2),
        ],
        ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
    )
    def test_exit_codes(self, run, saved, words, code):
        result = run("check", saved("llama"), "--fail-on", "never", *words)
        assert result.exit_code == code, result.stderr
        assert "Traceback" not in result.stderr

    def test_what_is_wrong_is_said_with_what_is_near(self, run, saved):
        path = saved("llama")
        assert (
            "measurements has growth"
            in run("check", path, "--max", "measurements.grwth.t=1").stderr
        )
        result = run("check", path, "--max", "measurements.growth[model.layer].total=1")
        assert "similar ids: model.layers" in result.stderr

    def test_they_may_be_set_and_what_is_typed_goes_over_them(self, run, saved, folder):
        path = saved("llama")
        settings = folder / "normdiag.toml"
        for text in (
            f'[max]\n"{TOTAL}" = 2',
            f"max.{TOTAL} = 2",
            "[max.measurements]\ngrowth.total = 2",
        ):
            settings.write_text(text, encoding="utf-8")
            assert run("check", path).exit_code == 1
            assert run("check", path, "--max", f"{TOTAL}=50").exit_code == 0
        settings.write_text('[min]\n"measurements.nothing" = 2', encoding="utf-8")
        assert run("check", path).exit_code == 2

    def test_they_are_in_the_report(self, run, saved):
        result = run("check", saved("llama"), "--max", f"{TOTAL}=2", "-f", "json")
        (bounded,) = check_of(result)["bounds"]
        total = REPORTS["llama"]().measurements.growth["model.layers"].total
        assert bounded == {
            "path": TOTAL,
            "bound": "max",
            "limit": 2.0,
            "value": total,
            "location": "measurements.growth[model.layers].total",
            "unmeasured": 0,
            "state": "broken",
            "why": f"measurements.growth[model.layers].total is {total:.3g} and must be at most 2",
        }


def test_what_is_ignored_is_shown_with_its_reason(run, saved, folder):
    (folder / "pyproject.toml").write_text(
        '[tool.normdiag.ignore]\nND304 = "known since the first run"', encoding="utf-8"
    )
    result = run("check", saved("llama"), "--fail-on", "warning", "--select", "ND3")
    assert result.exit_code == 0
    assert "ignored  ND304: known since the first run" in result.stdout
    (folder / "pyproject.toml").write_text(
        '[tool.normdiag]\nignore = ["massive-activation"]', encoding="utf-8"
    )
    result = run("check", saved("llama"), "--fail-on", "warning", "--select", "ND3")
    assert "ignored  massive-activation: no reason given" in result.stdout


@pytest.mark.parametrize("form", ["sarif", "junit", "markdown", "github", "text", "json"])
def test_a_saved_check_is_shown_in_any_format_as_it_was_judged(run, saved, folder, form):
    path = saved("llama")
    words = (*ONE, "--max", f"{TOTAL}=2")
    direct = run("check", path, *words, "-f", form, "--json", "checked.json")
    later = run("render", "checked.json", "-f", form)
    assert direct.exit_code == 1 and later.exit_code == 0
    assert later.stdout == direct.stdout
    told = direct.stderr.removesuffix("\n").removesuffix("checked.json written")
    assert later.stderr.removesuffix("\n") == told.removesuffix("; ")
    assert load_report("checked.json").check.exit_code == 1


def test_sarif_carries_the_pages_of_the_rules(run, saved):
    log = json.loads(run("check", saved("llama"), "-f", "sarif").stdout)
    rules = log["runs"][0]["tool"]["driver"]["rules"]
    assert rules and all(rule["help"]["markdown"].startswith("# ND") for rule in rules)
