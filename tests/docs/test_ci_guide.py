"""The jobs of the guide to CI do what it says, as far as that can be seen without the services.

The YAML keeps to the published schemas, and the commands are run as the service would run them,
with installers that install nothing. What is checked is a saved report, which needs no torch.
"""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
import tomllib
from pathlib import Path
from xml.etree import ElementTree as xml

import jsonschema
import pytest
import yaml

import normdiag
from normdiag import config
from normdiag.report.paths import parse_path
from normdiag.report.saved import load_reports
from tests import hostile, reports

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs/guides/ci.md").read_text(encoding="utf-8")
SCHEMAS = ROOT / "tests/schemas"
STUB = '#!/bin/sh\necho "$(basename "$0") $*" >> "$INSTALLED"\n'
VENV = f"""#!/bin/sh
echo "python3 $*" >> "$INSTALLED"
mkdir -p "$3/bin"
cp "$(dirname "$0")/pip" "$3/bin/pip"
ln -s {Path(sys.executable).parent / "normdiag"} "$3/bin/normdiag"
"""


def block(language: str, place: str) -> str:
    """The first block of that language below the heading `place`."""
    section = GUIDE.partition(f"\n## {place}\n")[2].partition("\n## ")[0]
    (found,) = re.findall(rf"^```{language}\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    return found


GITHUB = yaml.safe_load(block("yaml", "GitHub Actions"))
GITLAB = yaml.safe_load(block("yaml", "GitLab"))


class Repository:
    """A repository with a model (a saved report), a baseline, and stubs for what installs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.installed = folder / "installed.log"
        stubs = folder / "stubs"
        stubs.mkdir()
        for name, text in (("pip", STUB), ("python", STUB), ("python3", VENV)):
            (stubs / name).write_text(text, encoding="utf-8")
            (stubs / name).chmod(stat.S_IRWXU)
        self.environment = os.environ | {
            "PATH": os.pathsep.join(
                [str(stubs), str(Path(sys.executable).parent), os.environ["PATH"]]
            ),
            "INSTALLED": str(self.installed),
            "GITHUB_STEP_SUMMARY": str(folder / "summary.md"),
            "TARGET": "model.json",
        }
        reports.llama().save(folder / "normdiag-baseline.json")
        reports.llama().save(folder / "model.json")

    def breaks(self) -> None:
        """The model of the pull request is broken."""
        hostile.broken().save(self.folder / "model.json")

    def is_gone(self) -> None:
        """The model of the pull request is not there."""
        (self.folder / "model.json").unlink()

    def run(self, script: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """As services run a step: `bash -e`."""
        return subprocess.run(
            ["bash", "-eo", "pipefail", "-c", script],
            cwd=self.folder,
            env=self.environment | environment,
            capture_output=True,
            encoding="utf-8",
        )

    def has(self, name: str) -> bool:
        return (self.folder / name).exists()

    def text(self, name: str) -> str:
        return (self.folder / name).read_text(encoding="utf-8")


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path)


@pytest.mark.parametrize(
    ("job", "schema"),
    [(GITHUB, "github-workflow"), (GITLAB, "gitlab-ci")],
    ids=["github", "gitlab"],
)
def test_the_jobs_keep_to_the_published_schemas(job: object, schema: str) -> None:
    rules = json.loads((SCHEMAS / f"{schema}.json").read_text(encoding="utf-8"))
    validator = jsonschema.validators.validator_for(rules)(rules)
    # YAML 1.1 reads the key `on` as true; the services do not.
    document = {("on" if key is True else key): value for key, value in dict(job).items()}
    validator.validate(document)
    wrong = {"normdiag": {"script": 3}} if schema == "gitlab-ci" else {"jobs": 3}
    assert not validator.is_valid(document | wrong)


def github(repository: Repository) -> tuple[bool, list[str]]:
    """Run the steps as the service would: whether the job passed, and which steps were run."""
    passed, done = True, []
    for step in GITHUB["jobs"]["norms"]["steps"]:
        condition = step.get("if", "success()")
        needs = re.findall(r"hashFiles\('([^']*)'\)", condition)
        wanted = passed or "always()" in condition
        if not (wanted and all(map(repository.has, needs))):
            continue
        done.append(step.get("name") or step["uses"].partition("@")[0])
        if "run" in step:
            variables = {"NORMDIAG": GITHUB["env"]["NORMDIAG"]}
            passed &= repository.run(step["run"], **variables).returncode == 0
    return passed, done


SETUP = ["actions/checkout", "actions/setup-python", "actions/cache", "Install", "Check"]
REPORTING = ["Summarise", "github/codeql-action/upload-sarif", "actions/upload-artifact"]


def test_github_passes_on_what_is_known(repository: Repository) -> None:
    assert github(repository) == (True, SETUP + REPORTING)
    pip = repository.text("installed.log").splitlines()
    assert pip[-1] == "python -m pip install normdiag==0.1.0"
    assert "**passed: compared with the baseline" in repository.text("summary.md")
    assert json.loads(repository.text("normdiag.sarif"))["runs"][0]["results"]


def test_github_fails_on_what_is_new_and_still_reports(repository: Repository) -> None:
    repository.breaks()
    assert github(repository) == (False, SETUP + REPORTING)
    assert "**failed: " in repository.text("summary.md")
    states = [
        result["baselineState"]
        for result in json.loads(repository.text("normdiag.sarif"))["runs"][0]["results"]
    ]
    assert "new" in states


def test_github_without_a_report_reports_nothing(repository: Repository) -> None:
    repository.is_gone()
    assert github(repository) == (False, SETUP)


def gitlab(repository: Repository) -> bool:
    job = GITLAB["normdiag"]
    variables = {"NORMDIAG": job["variables"]["NORMDIAG"]}
    script = "\n".join(job["before_script"] + job["script"])
    passed = repository.run(script, **variables).returncode == 0
    repository.run("\n".join(job["after_script"]), **variables)
    return passed


@pytest.mark.parametrize("broken", [pytest.param(False, marks=pytest.mark.slow), True])
def test_gitlab_passes_fails_and_reports(repository: Repository, broken: bool) -> None:
    if broken:
        repository.breaks()
    assert gitlab(repository) is not broken
    kept = GITLAB["normdiag"]["artifacts"]
    for name in (*kept["paths"], kept["reports"]["junit"]):
        assert repository.has(name)
    failures = int(xml.fromstring(repository.text("normdiag.xml")).attrib["failures"])
    assert (failures > 0) is broken


@pytest.mark.parametrize(
    ("what", "code"),
    [
        pytest.param("same", 0, marks=pytest.mark.slow),
        ("breaks", 1),
        pytest.param("is_gone", 3, marks=pytest.mark.slow),
    ],
)
def test_the_shell_script_exits_as_the_check_does(
    repository: Repository, what: str, code: int
) -> None:
    if what != "same":
        getattr(repository, what)()
    (repository.folder / "check.sh").write_text(block("sh", "A plain shell"), encoding="utf-8")
    for name in ("normdiag.json", "normdiag.xml", "normdiag.md"):
        (repository.folder / name).write_text("of an earlier run", encoding="utf-8")
    done = repository.run("sh check.sh model.json")
    assert done.returncode == code, done.stderr
    assert repository.has("normdiag.xml") is repository.has("normdiag.md") is (code != 3)
    assert repository.run("sh check.sh").returncode != 0


@pytest.mark.slow
def test_the_shell_script_installs_once(repository: Repository) -> None:
    (repository.folder / "check.sh").write_text(block("sh", "A plain shell"), encoding="utf-8")
    for _ in range(2):
        assert repository.run("sh check.sh model.json").returncode == 0
        assert repository.text("installed.log").count("install") == 2


def test_the_wheel_is_called_as_pip_calls_it() -> None:
    (wheel,) = set(re.findall(r"normdiag-\S+\.whl", GUIDE))
    assert wheel == f"normdiag-{normdiag.__version__}-py3-none-any.whl"
    assert set(re.findall(r"normdiag==[\d.]+\d", GUIDE)) == {f"normdiag=={normdiag.__version__}"}


def test_the_settings_are_settings(tmp_path: Path) -> None:
    text = block("toml", "By hand")
    assert tomllib.loads(text)
    (tmp_path / "pyproject.toml").write_text(text, encoding="utf-8")
    settings = config.find_settings(tmp_path)
    assert settings.values["max"] == {"measurements.growth.total": 3.0}
    assert settings.ignore_reasons["ND304"]


def test_the_paths_lead_somewhere() -> None:
    section = GUIDE.partition("\n## Bounds on numbers\n")[2].partition("\n## ")[0]
    paths = re.findall(r"`(measurements\.[^`]*)`", section)
    assert len(paths) > 6
    assert [parse_path(path).text for path in paths] == paths


def test_several_checkpoints(repository: Repository) -> None:
    for number in (10, 2):
        reports.llama(2).save(repository.folder / f"ckpt-{number}.json")
    (command,) = re.findall(r"^\$ (normdiag check ckpt-.*)$", GUIDE, re.MULTILINE)
    done = repository.run(command.replace("ckpt-*/", "ckpt-*.json"))
    assert done.returncode == 0, done.stderr
    found = load_reports(repository.folder / "checkpoints.json")
    assert [entry.target for entry in found.reports] == ["ckpt-2.json", "ckpt-10.json"]


def test_links_lead_somewhere() -> None:
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", GUIDE)
    assert links
    assert [link for link in links if not (ROOT / "docs/guides" / link).exists()] == []
