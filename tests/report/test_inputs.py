"""The same inputs are known by their digest, or else by all that is said of them."""

from __future__ import annotations

import pytest

from normdiag.evidence.subject import InputSummary
from normdiag.report.inputs import are_same_inputs


def probe(digest: str | None = None, **said: object) -> InputSummary:
    fields = {"kind": "texts", "sequences": 2, "tokens": 8, "texts": ("a", "b"), "seed": 0}
    return InputSummary(digest=digest, **(fields | said))  # type: ignore[arg-type]


def test_equal_digests_decide_whatever_else_is_said() -> None:
    assert are_same_inputs(probe("1"), probe("1", kind="user-texts", texts=(), seed=None))
    assert not are_same_inputs(probe("1"), probe("2"))
    assert not are_same_inputs(
        probe("1"), probe("1", tokens=9)
    )  # the same ids, others of them padding


@pytest.mark.parametrize(
    "other", [{"kind": "inputs"}, {"sequences": 1}, {"tokens": 9}, {"texts": ("a",)}, {"seed": 1}]
)
def test_without_both_digests_all_that_is_said_must_agree(other: dict[str, object]) -> None:
    assert are_same_inputs(probe(), probe("1"))
    assert not are_same_inputs(probe(), probe("1", **other))
