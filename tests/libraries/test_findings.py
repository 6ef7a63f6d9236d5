"""Models of other libraries: none of them is ill, so none gets a warning.

Weights have the size of trained ones. As the libraries draw them, some models do have what a
rule warns of, which `at_initialisation.csv` names.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest
from torch import nn

import normdiag
from normdiag.findings import Finding
from tests.libraries.library_cases import MODELS, find_model, library_cases

MEASURED = ("stream", "norms", "gradients")
"""All that costs one forward or two; `JACOBIANS` are measured of a few."""
JACOBIANS = """
    torch_nn/encoder@post torch_nn/decoder@pre timm/vit timm/mixer timm/swin open_clip/clip
    litgpt/pythia litgpt/mixtral x_transformers/pre diffusers/dit
"""


def _known_codes() -> dict[str, set[str]]:
    """Per model (`library/name`), the codes of what is so at initialisation."""
    with (Path(__file__).parent / "at_initialisation.csv").open(
        encoding="utf-8", newline=""
    ) as lines:
        return {row["model"]: set(row["codes"].split()) for row in csv.DictReader(lines)}


AT_INITIALISATION = _known_codes()


def warnings_of(
    model: nn.Module, inputs: dict[str, Any], measure: tuple[str, ...] = MEASURED
) -> list[Finding]:
    report = normdiag.inspect(model, inputs=inputs, measure=measure)
    return [finding for finding in report.findings if finding.severity != "info"]


@pytest.mark.parametrize(("library", "name"), library_cases("findings"))
def test_no_warning(library: str, name: str) -> None:
    model, inputs = find_model(library, name).build_drawn()
    jacobians = ("jacobians",) if f"{library}/{name}" in JACOBIANS.split() else ()
    found = warnings_of(model, inputs, (*MEASURED, *jacobians))
    assert not found, [f"{f.code} {f.message}" for f in found]


@pytest.mark.parametrize(("library", "name"), library_cases("findings"))
def test_no_other_warning_at_initialisation(library: str, name: str) -> None:
    found = warnings_of(*find_model(library, name).build())
    codes = AT_INITIALISATION.get(f"{library}/{name}", set())
    assert not [f"{f.code} {f.message}" for f in found if f.code not in codes]


def test_models_named_here_are_read() -> None:
    titles = {f"{library}/{name}" for library, name in MODELS}
    assert set(AT_INITIALISATION) <= titles
    assert set(JACOBIANS.split()) <= titles


def test_a_warning_would_be_seen() -> None:
    model, inputs = find_model("torch_nn", "encoder@pre").build_drawn()
    model.get_submodule("layers.1.norm1").eps = 10.0
    assert {finding.code for finding in warnings_of(model, inputs)} >= {"ND301"}
