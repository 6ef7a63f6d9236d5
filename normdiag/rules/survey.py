"""The survey of trained models that thresholds are set beside."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from normdiag.number_text import format_count, format_value

SURVEY_FILE = Path(__file__).with_name("survey.json")
"""Model -> "CODE.threshold" -> the value nearest to being reported, null where there is none."""

SURVEY_LEGEND = (
    "In trained models: of each model the value nearest to being reported; where thresholds must "
    "be passed together, each is taken alone. A model that no setting in the range would report "
    "has none."
)
"""What a page says below a table with the figures."""


@cache
def _load_survey() -> dict[str, Any]:
    survey: dict[str, Any] = json.loads(SURVEY_FILE.read_text(encoding="utf-8"))
    return survey


def describe_survey(code: str, threshold: str) -> str:
    """Say how far the quantity goes in trained models, "4 models: 3 to 153"; "" if not surveyed."""
    figures = _load_survey()["models"].values()
    surveyed = [of[key] for of in figures if (key := f"{code}.{threshold}") in of]
    values = [value for value in surveyed if value is not None]
    if not surveyed:
        return ""
    models = format_count(len(surveyed), "model")
    if not values:
        return f"none in {models}"
    low, high = format_value(min(values)), format_value(max(values))
    share = "" if len(values) == len(surveyed) else f"{len(values)} of "
    return f"{share}{models}: {low if low == high else f'{low} to {high}'}"
