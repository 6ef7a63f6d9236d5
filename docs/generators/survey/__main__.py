"""Survey trained models: python -m docs.generators.survey [NAME...]; writes the stored figures.

Only the models that are named are measured again; the figures of the others stay. Weights come from
the package index and lie in the cache of `tests.real`, never in the repository.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from docs.generators.survey.models import MODELS
from docs.generators.survey.quantities import QUANTITIES, SMALLEST
from normdiag import inspect
from normdiag.rules.survey import SURVEY_FILE

MEASURED = ("stream", "norms", "norm-jacobians")


def survey_model(name: str) -> dict[str, dict[str, float]]:
    """Quantity -> its smallest, median and largest value in one model."""
    with tempfile.TemporaryDirectory() as scratch:
        saved = Path(scratch) / "report.json"
        inspect(str(MODELS[name]()), measure=MEASURED).save(saved)
        return summarise_report(json.loads(saved.read_text(encoding="utf-8")))


def summarise_report(report: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Quantity -> smallest, median and largest value, to six digits; those without any left out."""
    listed = {name: list(values(report)) for name, values in QUANTITIES.items()}
    return {
        name: {
            "min": _round(min(values)),
            "median": _round(median(values)),
            "max": _round(max(values)),
        }
        for name, values in listed.items()
        if values
    }


def _round(value: float) -> float:
    return float(f"{value:.6g}")


def main(names: list[str]) -> int:
    """Measure the models and write the file."""
    stored = json.loads(SURVEY_FILE.read_text(encoding="utf-8")) if SURVEY_FILE.exists() else {}
    models = stored.get("models", {})
    for name in names or MODELS:
        models[name] = survey_model(name)
    survey = {"smallest": sorted(SMALLEST), "models": dict(sorted(models.items()))}
    SURVEY_FILE.write_text(json.dumps(survey, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
