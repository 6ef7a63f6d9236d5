"""Survey trained models: python -m docs.generators.survey [NAME...]; writes the stored figures.

Only the models that are named are measured again; the figures of the others stay. Weights come from
the package index and lie in the cache of `tests.real`, never in the repository.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from docs.generators.survey.models import MODELS
from docs.generators.survey.quantities import find_quantities
from normdiag import inspect, load_report
from normdiag.rules.survey import SURVEY_FILE


def survey_model(name: str) -> dict[str, float | None]:
    """Return "CODE.threshold" -> the value of one model, to six digits; None where it has none."""
    with tempfile.TemporaryDirectory() as scratch:
        saved = Path(scratch) / "report.json"
        inspect(str(MODELS[name]())).save(saved)
        found = find_quantities(load_report(saved).to_evidence())
    return {key: None if value is None else float(f"{value:.6g}") for key, value in found.items()}


def main(names: list[str]) -> int:
    """Measure the models and write the file."""
    stored = json.loads(SURVEY_FILE.read_text(encoding="utf-8")) if SURVEY_FILE.exists() else {}
    models = stored.get("models", {})
    for name in names or MODELS:
        models[name] = survey_model(name)
    survey = {"models": dict(sorted(models.items()))}
    SURVEY_FILE.write_text(
        json.dumps(survey, indent=1, allow_nan=False) + "\n", encoding="utf-8"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
