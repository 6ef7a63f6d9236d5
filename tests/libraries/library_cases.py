"""Every model as a test case: skipped where its library is absent, marked where it fails today."""

from __future__ import annotations

import csv
import os
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from tests.libraries.libraries import LIBRARIES, missing_because
from tests.libraries.library_models import LibraryModel, library_models

MODELS: dict[tuple[str, str], LibraryModel] = {
    (library, name): model
    for library in LIBRARIES
    for name, model in library_models(library).items()
}


def known_differences() -> dict[tuple[str, str], str]:
    """Test and model (`library/name`) -> the kind and the reason of what is not right today."""
    with (Path(__file__).parent / "differences.csv").open(encoding="utf-8", newline="") as lines:
        return {
            (row["test"], row["model"]): f"kind {row['kind']}: {row['reason']}"
            for row in csv.DictReader(lines)
        }


def library_cases(test: str) -> list[ParameterSet]:
    """All models, as arguments `library` and `name`."""
    known = known_differences()
    cases = []
    for library, name in MODELS:
        title = f"{library}/{name}"
        reason = known.get((test, title))
        marks = [] if reason is None else [pytest.mark.xfail(reason=reason, strict=False)]
        cases.append(pytest.param(library, name, id=title, marks=marks))
    return cases


def find_model(library: str, name: str) -> LibraryModel:
    """The model, or a skip that says what is missing (a failure where all are wanted)."""
    reason = missing_because(library)
    if reason is not None and "NORMDIAG_ALL_LIBRARIES" in os.environ:
        pytest.fail(reason)
    if reason is not None:
        pytest.skip(reason)
    return MODELS[library, name]
