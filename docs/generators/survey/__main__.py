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
    """Inspect one model and return what is stored of it, see `summarise_report`."""
    with tempfile.TemporaryDirectory() as scratch:
        saved = Path(scratch) / "report.json"
        inspect(str(MODELS[name]())).save(saved)
        return summarise_report(saved)


def summarise_report(saved: Path) -> dict[str, float | None]:
    """Return "CODE.threshold" -> the value of one model, to six digits; None where it has none."""
    found = find_quantities(load_report(saved).to_evidence())
    return {key: None if value is None else float(f"{value:.6g}") for key, value in found.items()}


def store_figures(name: str, figures: dict[str, float | None]) -> None:
    """Write the figures of one model into the file; those of the others stay."""
    models = {name: figures}
    if SURVEY_FILE.exists():
        models = json.loads(SURVEY_FILE.read_text(encoding="utf-8"))["models"] | models
    survey = {"models": dict(sorted(models.items()))}
    text = json.dumps(survey, indent=1, allow_nan=False)
    SURVEY_FILE.write_text(text + "\n", encoding="utf-8")


def main(names: list[str]) -> int:
    """Measure the models, one after the other; the file is complete after each."""
    for name in names or MODELS:
        store_figures(name, survey_model(name))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
