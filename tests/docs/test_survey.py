"""The figures of trained models on the pages of rules are those of the stored survey."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import normdiag
from docs.generators.survey.__main__ import MEASURED, survey_model
from docs.generators.survey.models import MODELS
from docs.generators.survey.quantities import QUANTITIES, SMALLEST
from normdiag.number_text import format_number
from normdiag.rules.page import format_rule_page
from normdiag.rules.registry import RULES
from normdiag.rules.survey import SURVEY_FILE
from tests.real.packages import UnavailableError

STORED = json.loads(SURVEY_FILE.read_text(encoding="utf-8"))
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


def test_every_model_and_every_quantity_is_stored() -> None:
    assert set(STORED["models"]) == set(MODELS)
    assert set(QUANTITIES) <= set(ROWS)
    assert set(STORED["smallest"]) == set(SMALLEST)
    assert SURVEY_FILE.stat().st_size < 100_000


@pytest.mark.parametrize("name", QUANTITIES)
def test_the_page_prints_the_extremes_over_models(name: str) -> None:
    rule, threshold = ROWS[name]
    side = "min" if name in SMALLEST else "max"
    extremes = [figures[name][side] for figures in STORED["models"].values() if name in figures]
    row = re.search(rf"^\| `{threshold.name}` .*$", format_rule_page(rule), re.MULTILINE)
    assert row is not None
    cell = row.group().split(" | ")[4]
    count, _, span = cell.partition(": ")
    assert int(count.split()[0]) == len(extremes)
    shown = span.split(" to ")
    assert (shown[0], shown[-1]) == (format_number(min(extremes)), format_number(max(extremes)))


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.parametrize("name", ["all-MiniLM-L6-v2", "rxnmapper-albert"])
def test_a_model_measured_again_gives_the_stored_figures(name: str) -> None:
    available(name)
    again, stored = survey_model(name), STORED["models"][name]
    assert again.keys() == stored.keys()
    for quantity, figures in again.items():
        assert figures == pytest.approx(stored[quantity], rel=1e-2, abs=1e-6), quantity


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_a_trained_model_that_works_gets_no_warning(name: str) -> None:
    report = normdiag.inspect(str(available(name)), measure=MEASURED)
    assert [f.message for f in report.findings if f.severity != "info"] == []
