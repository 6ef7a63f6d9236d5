"""Models of other libraries: none of them is ill, so none gets a warning.

Weights have the size of trained ones, and once more are those that the libraries draw. Of a few
models a warning is right, mostly at initialisation: `warranted.csv` names them.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from torch import nn

import normdiag
from normdiag.findings import Finding
from tests.libraries.library_cases import MODELS, find_model, library_cases

MEASURED = ("stream", "norms", "gradients")
WITHOUT_JACOBIANS = """
    diffusers/unet_condition timm/resnet10t torchvision/resnet18 torchvision/resnet50
"""
"""So many channels that their Jacobians take as long as those of all others."""


def _warranted_codes() -> dict[tuple[str, str], set[str]]:
    """Per model (`library/name`) and "always" or "initially", the codes that are right."""
    found: dict[tuple[str, str], set[str]] = defaultdict(set)
    with (Path(__file__).parent / "warranted.csv").open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            found[row["model"], row["when"]] |= set(row["codes"].split())
    return found


WARRANTED = _warranted_codes()


def unwarranted(findings: list[Finding], title: str, *when: str) -> list[str]:
    """The findings that are not right of this model, in words."""
    codes = {code for moment in when for code in WARRANTED.get((title, moment), ())}
    return [f"{f.code} {f.message}" for f in findings if f.code not in codes]


def warnings_of(
    model: nn.Module, inputs: dict[str, Any], measure: tuple[str, ...] = MEASURED
) -> list[Finding]:
    report = normdiag.inspect(model, inputs=inputs, measure=measure)
    return [finding for finding in report.findings if finding.severity != "info"]


@pytest.mark.parametrize(("library", "name"), library_cases("findings"))
def test_no_warning(library: str, name: str) -> None:
    title = f"{library}/{name}"
    model, inputs = find_model(library, name).build_drawn()
    jacobians = () if title in WITHOUT_JACOBIANS.split() else ("jacobians",)
    found = warnings_of(model, inputs, (*MEASURED, *jacobians))
    assert not unwarranted(found, title, "always")


@pytest.mark.parametrize(("library", "name"), library_cases("findings"))
def test_no_warning_at_initialisation(library: str, name: str) -> None:
    found = warnings_of(*find_model(library, name).build())
    assert not unwarranted(found, f"{library}/{name}", "always", "initially")


def test_models_named_here_are_read() -> None:
    titles = {f"{library}/{name}" for library, name in MODELS}
    assert {model for model, _ in WARRANTED} <= titles
    assert {when for _, when in WARRANTED} == {"always", "initially"}
    assert set(WITHOUT_JACOBIANS.split()) <= titles


def test_a_warning_would_be_seen() -> None:
    model, inputs = find_model("torch_nn", "encoder@pre").build_drawn()
    model.get_submodule("layers.1.norm1").eps = 10.0
    assert {finding.code for finding in warnings_of(model, inputs)} >= {"ND301"}
