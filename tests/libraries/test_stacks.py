"""Models of other libraries: the stacks that are found are those of their code.

The truth was written from the libraries' source, never from what normdiag says. Where the two
differ today, `differences.csv` says so, with the reason.
"""

from __future__ import annotations

import dataclasses
from collections import Counter

import pytest

from normdiag.evidence.architecture import Architecture
from tests.libraries.libraries import LIBRARIES
from tests.libraries.library_cases import MODELS, find_model, known_differences, library_cases
from tests.libraries.stack_truths import find_differences, stack_truths
from tests.structure.structures import architecture

TRUTHS = {library: stack_truths(library) for library in LIBRARIES}


def differences(library: str, name: str, found: Architecture) -> list[str]:
    return find_differences(TRUTHS[library][name], MODELS[library, name].single_adds, found)


@pytest.mark.parametrize(("library", "name"), library_cases("stacks"))
def test_stacks_are_those_of_the_code(library: str, name: str) -> None:
    found = architecture(*find_model(library, name).build())
    truths = TRUTHS[library][name]
    assert not differences(library, name, found), [t.why for t in truths if t.why]


def test_every_model_has_its_truth() -> None:
    for library in LIBRARIES:
        assert set(TRUTHS[library]) == {name for of, name in MODELS if of == library}
    counts = Counter(library for library, _ in MODELS)
    assert set(counts) == set(LIBRARIES)
    assert sum(counts.values()) >= 60


def test_known_differences_are_of_models_that_are_read() -> None:
    titles = {f"{library}/{name}" for library, name in MODELS}
    assert {model for _, model in known_differences()} <= titles
    assert {test for test, _ in known_differences()} <= {"stacks", "findings"}


def test_each_fact_is_compared() -> None:
    """A stack that is another in one fact is told from the truth in that fact alone."""
    found = architecture(*find_model("torch_nn", "encoder@pre").build())
    assert differences("torch_nn", "encoder@pre", found) == []
    for change, words in {
        "id": ("blocks", "layers: path blocks, not layers"),
        "placement": ("post", "layers: placement post, not pre"),
        "norm_kind": ("rmsnorm", "layers: norm kind rmsnorm, not layernorm"),
        "layers": (2, "layers: layers 2, not 3"),
        "residual_adds_per_layer": (1, "layers: adds per layer 1, not 2"),
        "norms_per_layer": (1, "layers: norms per layer 1, not 2"),
        "qk_norm": (True, "layers: q/k norm True, not False"),
        "final_norm": (None, "layers: final norm none, not norm"),
    }.items():
        stack = dataclasses.replace(found.stacks[0], **{change: words[0]})
        adds = tuple(dataclasses.replace(a, stack=stack.id) for a in found.residual_adds)
        other = dataclasses.replace(found, stacks=(stack,), residual_adds=adds)
        assert differences("torch_nn", "encoder@pre", other) == [words[1]]


def test_missing_and_further_stacks_and_adds_are_seen() -> None:
    found = architecture(*find_model("torch_nn", "encoder@pre").build())
    fewer = dataclasses.replace(found, residual_adds=found.residual_adds[1:])
    assert differences("torch_nn", "encoder@pre", fewer) == ["5 adds, not 6"]
    none = dataclasses.replace(found, stacks=())
    assert differences("torch_nn", "encoder@pre", none) == ["0 stacks, not 1 ()"]
    other = dataclasses.replace(found.stacks[0], id="others")
    adds = tuple(dataclasses.replace(a, stack="others") for a in found.residual_adds)
    two = dataclasses.replace(
        found, stacks=(*found.stacks, other), residual_adds=(*found.residual_adds, *adds)
    )
    assert differences("torch_nn", "encoder@pre", two) == [
        "12 adds, not 6",
        "2 stacks, not 1 (layers: 3, others: 3)",
    ]
