"""The figures of trained models on the pages of rules are those of the stored survey."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import docs.generators.survey.__main__ as survey_script
from docs.generators.survey.__main__ import store_figures
from docs.generators.survey.models import MODELS
from normdiag.number_text import format_value
from normdiag.rules.page import format_rule_page
from normdiag.rules.registry import RULES
from normdiag.rules.survey import SURVEY_FILE, SURVEY_LEGEND, describe_survey
from tests.real.packages import UnavailableError

STORED = json.loads(SURVEY_FILE.read_text(encoding="utf-8"))["models"]
ROWS = {
    f"{rule.code}.{threshold.name}": (rule, threshold)
    for rule in RULES
    for threshold in rule.thresholds
}


def available(name: str) -> Path:
    try:
        return MODELS[name]()
    except UnavailableError as error:
        pytest.skip(str(error))


def test_every_model_has_every_threshold() -> None:
    assert set(STORED) == set(MODELS)
    for name, figures in STORED.items():
        assert set(figures) == set(ROWS), name
    assert SURVEY_FILE.stat().st_size < 100_000


@pytest.mark.parametrize("name", ROWS)
def test_the_page_prints_the_extremes_over_models(name: str) -> None:
    rule, threshold = ROWS[name]
    values = [figures[name] for figures in STORED.values() if figures[name] is not None]
    page = format_rule_page(rule)
    row = re.search(rf"^\| `{threshold.name}` .*$", page, re.MULTILINE)
    assert row is not None and SURVEY_LEGEND in page
    cell = row.group().split(" | ")[4]
    if not values:
        assert cell == f"none in {len(STORED)} models"
        return
    count, _, span = cell.partition(": ")
    of = f"{len(values)} of " if len(values) < len(STORED) else ""
    assert count == f"{of}{len(STORED)} models"
    shown = span.split(" to ")
    assert (shown[0], shown[-1]) == (format_value(min(values)), format_value(max(values)))


def test_a_threshold_that_was_not_surveyed_is_said_to_be_so() -> None:
    assert describe_survey("ND301", "of_no_rule") == ""


def test_figures_of_one_model_replace_its_own_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "survey.json"
    monkeypatch.setattr(survey_script, "SURVEY_FILE", file)
    store_figures("b", {"ND101.layers": 1.0})
    store_figures("a", {"ND101.layers": None})
    store_figures("b", {"ND101.layers": 2.0})
    stored = json.loads(file.read_text(encoding="utf-8"))["models"]
    assert list(stored.items()) == [("a", {"ND101.layers": None}), ("b", {"ND101.layers": 2.0})]


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.parametrize("name", ["all-MiniLM-L6-v2", "rxnmapper-albert"])
def test_the_script_gives_the_stored_figures(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    available(name)
    file = tmp_path / "survey.json"
    monkeypatch.setattr(survey_script, "SURVEY_FILE", file)
    assert survey_script.main([name]) == 0
    again = json.loads(file.read_text(encoding="utf-8"))["models"][name]
    assert again.keys() == STORED[name].keys()
    for key, stored in STORED[name].items():
        if stored is None:
            assert again[key] is None, key
            continue
        # A replay's error is one rounding, and which one depends on the processor.
        rel = 1.0 if key.startswith("ND002") else 1e-2
        assert again[key] == pytest.approx(stored, rel=rel, abs=0), key
