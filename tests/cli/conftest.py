"""A command line to run in this process, on reports that are fabricated."""

import pytest
from typer.testing import CliRunner

from normdiag.cli.app import app
from tests import hostile, reports, traces

REPORTS = {
    "llama": reports.llama,
    "bert": reports.bert,
    "encoder_decoder": reports.encoder_decoder,
    "weights_only": reports.weights_only,
    "broken": hostile.broken,
    "traced": traces.make_trace,
}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """An empty current directory, so that no settings file is found, and no colours."""
    monkeypatch.chdir(tmp_path)
    for name in ("NORMDIAG_DEBUG", "FORCE_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture
def run():
    """Run `normdiag` with these words; the result has stdout, stderr and exit_code."""

    def invoke(*words, stdin=None):
        words = [str(word) for word in words]
        return CliRunner().invoke(app, words, input=stdin, prog_name="normdiag")

    return invoke


@pytest.fixture
def saved(folder):
    """The file of a fabricated report, by its name."""

    def save(name):
        path = folder / f"{name}.json"
        REPORTS[name]().save(path)
        return path

    return save
