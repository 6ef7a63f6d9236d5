"""Why a rule was skipped, in words that say what to do about it."""

from __future__ import annotations

import pytest

from normdiag.evidence.stream import Closure, Growth, HeadInput
from normdiag.evidence.weights import StaticPass
from normdiag.rules.requirements import Requirement, missing_reason
from tests import factories
from tests.rules.builders import evidence, make_adds, make_measurement, norms, stack

BUILT = {"norms": norms(1), "adds": make_adds(1), "stacks": (stack(1),)}
GROWTH = Growth(law="constant", rate=None, rate_error=None, confidence=0.9, total=1.0)
WEIGHTS = StaticPass(tensors=1, elements=1, nonfinite=0, dtypes={}, flagged=())


def why(need: Requirement, mode: str = "run", **given) -> str | None:
    return missing_reason(evidence(subject={"mode": mode}, **given), need)


@pytest.mark.parametrize(
    ("need", "given"),
    [
        ("loading", {}),
        ("forward", {}),
        ("architecture.stacks", BUILT),
        ("values", {"head_input": HeadInput(rms=1.0, max_abs=2.0)}),
        ("measurements.norms", {"norm_inputs": {"n": make_measurement(0.1)}}),
        ("measurements.stream", {"stream": {"a": factories.add_measurement()}}),
        ("measurements.growth", {"growth": {"s": GROWTH}}),
        ("measurements.duplicates", {"duplicates": {"s": ()}}),
        ("measurements.replay", {"closure": {"s": Closure(max_rel_error=0.0, layer=0)}}),
        ("measurements.weights", {"weights": WEIGHTS}),
    ],
)
def test_what_is_there_is_not_missed(need: Requirement, given: dict) -> None:
    assert why(need, **given) is None


@pytest.mark.parametrize(
    ("need", "given", "expected"),
    [
        ("architecture.stacks", {}, "no stack of residual adds was found"),
        ("measurements.norms", {}, "no norm was found"),
        ("measurements.norms", BUILT, "add 'norm-inputs' to --measure"),
        ("measurements.stream", {}, "no residual add was found"),
        ("measurements.stream", BUILT, "add 'stream-adds' to --measure"),
        ("measurements.growth", {}, "no stack of residual adds was found"),
        ("measurements.growth", BUILT, "add 'stream-adds' to --measure"),
        ("measurements.duplicates", {}, "no stack of residual adds was found"),
        ("measurements.duplicates", BUILT, "no stack has two layers"),
        (
            "measurements.duplicates",
            {**BUILT, "stream": {"a": factories.add_measurement()}},
            "no stack has two layers",
        ),
        (
            "measurements.growth",
            {**BUILT, "stream": {"layers.0/add#0": factories.add_measurement()}},
            "no growth law can be fitted",
        ),
        ("measurements.replay", {}, "no norm and no residual add was found"),
        ("measurements.replay", BUILT, "no site was replayed"),
        ("measurements.weights", BUILT, "the static pass over the tensors was not run"),
    ],
)
def test_what_is_missing_is_named(need: Requirement, given: dict, expected: str) -> None:
    assert expected in (why(need, **given) or "")


@pytest.mark.parametrize(
    ("mode", "need", "expected"),
    [
        ("weights-only", "forward", "--weights-only"),
        ("weights-only", "architecture.stacks", "--weights-only"),
        ("weights-only", "values", "--weights-only"),
        ("weights-only", "measurements.norms", "--weights-only"),
        ("weights-only", "measurements.replay", "--weights-only"),
        ("structure-only", "values", "--structure-only"),
        ("structure-only", "measurements.stream", "--structure-only"),
        ("structure-only", "measurements.weights", "--structure-only"),
        ("structure-only", "loading", "--structure-only"),
        ("weights-only", "loading", "no model was built"),
        ("random-init", "loading", "--random-init"),
        ("random-init", "measurements.weights", "--random-init"),
    ],
)
def test_the_mode_explains_what_is_missing(mode: str, need: Requirement, expected: str) -> None:
    assert expected in (why(need, mode) or "")


def test_random_weights_are_judged_like_any_others() -> None:
    assert (
        why("measurements.norms", "random-init", norm_inputs={"n": make_measurement(0.1)}) is None
    )


def test_without_weights_the_structure_is_judged() -> None:
    assert why("architecture.stacks", "structure-only", **BUILT) is None
    assert why("forward", "structure-only") is None
