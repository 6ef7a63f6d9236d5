from __future__ import annotations

import pytest

from tests import factories
from tests.rules.builders import evidence, make_adds, one, run_rule, stack

SHAPE = (2, 16, 64)


def ends(*norms: tuple[str, tuple[int, ...]], last: str | None = None):
    """Final norms by id and shape; `last`: the norm on the last add's sum."""
    made = [factories.norm(id, "final", stack="layers", shape=shape) for id, shape in norms]
    if last is not None:
        made.insert(0, factories.norm(last, "stream", stack="layers", layer=3, shape=SHAPE))
    return evidence(
        norms=tuple(made),
        stacks=(stack(4),),
        adds=(*make_adds(3), make_adds(4, stream_norm=last)[-1]),
    )


@pytest.mark.parametrize(
    "seen",
    [
        ends(("norm", SHAPE)),
        ends(last="layers.3.norm"),
        ends(("norm", SHAPE), ("norm@1", (2, 64))),  # behind a pooling over tokens
        evidence(stacks=(stack(4),)),
    ],
)
def test_one_norm_at_the_end_is_silent(seen) -> None:
    assert run_rule(seen, "ND103") == ()


def test_the_same_module_twice_is_a_warning() -> None:
    finding = one(ends(("norm", SHAPE), ("norm@1", SHAPE)), "ND103")
    assert (finding.severity, finding.confidence) == ("warning", "high")
    assert (finding.value, finding.ids) == (2.0, ("norm", "norm@1"))
    assert "norm, then norm@1: the same module" in finding.message
    assert "--site norm@1" in finding.advice


@pytest.mark.parametrize(
    "seen",
    [
        ends(("norm", SHAPE), ("connector.norm", SHAPE)),
        ends(("decoder.norm", SHAPE), last="layers.3.norm"),
    ],
)
def test_two_modules_are_mentioned(seen) -> None:
    finding = one(seen, "ND103")
    assert (finding.severity, finding.value) == ("info", 2.0)
