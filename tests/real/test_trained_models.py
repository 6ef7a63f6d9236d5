"""Trained models that work give no warning in the format they are stored in.

All measures that are on by default, at the default inputs. Whisper hears 0.64 s instead of 30.
"""

from __future__ import annotations

import pytest

import normdiag
from docs.generators.survey.models import MODELS
from tests.real.packages import UnavailableError


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_a_trained_model_is_clean(name: str) -> None:
    try:
        target = MODELS[name]()
    except UnavailableError as error:
        pytest.skip(str(error))
    report = normdiag.inspect(str(target))
    assert [(f.code, f.message) for f in report.findings if f.severity != "info"] == []
