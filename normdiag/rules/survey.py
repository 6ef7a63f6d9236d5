"""The survey of trained models that thresholds are set beside."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from normdiag.number_text import format_count, format_number

SURVEY_FILE = Path(__file__).with_name("survey.json")
"""Model -> "CODE.threshold" -> smallest, median and largest value of what is compared with it."""


@cache
def _load_survey() -> dict[str, Any]:
    survey: dict[str, Any] = json.loads(SURVEY_FILE.read_text(encoding="utf-8"))
    return survey


def describe_survey(code: str, threshold: str) -> str:
    """Say how far the quantity goes in trained models, "4 models: 3 to 153"; "" where not surveyed.

    Of each model the value nearest to being reported counts: the largest, or the smallest where
    values below the threshold are reported.
    """
    survey, key = _load_survey(), f"{code}.{threshold}"
    side = "min" if key in survey["smallest"] else "max"
    values = [figures[key][side] for figures in survey["models"].values() if key in figures]
    if not values:
        return ""
    low, high = format_number(min(values)), format_number(max(values))
    span = low if low == high else f"{low} to {high}"
    return f"{format_count(len(values), 'model')}: {span}"
