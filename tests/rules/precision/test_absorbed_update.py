from __future__ import annotations

import pytest

from tests.rules.builders import one, run_rule
from tests.rules.precision.formats import make_evidence, values_at


def make_absorbed(
    *layers: int, share: float = 0.9, run: str = "bfloat16", stored: str = "bfloat16"
):
    return make_evidence(
        run=run, stored=stored, half={"absorbed_updates": values_at(*layers, value=share)}
    )


def test_a_good_part_of_a_stack_is_a_warning() -> None:
    finding = one(make_absorbed(2, 3), "ND703")
    assert (finding.severity, finding.value, finding.threshold) == ("warning", 0.9, 0.75)
    assert "90% of the update u is absorbed (x + u = x) in bfloat16" in finding.message
    assert "2 adds, layers 2-3 of layers" in finding.message


def test_a_single_add_is_told_for_information() -> None:
    assert one(make_absorbed(2), "ND703").severity == "info"
    assert one(make_absorbed(2), "ND703", share_of_adds=0.1).severity == "warning"


def test_the_worst_comes_first() -> None:
    seen = make_evidence(
        run="bfloat16",
        half={"absorbed_updates": values_at(1, value=0.8) | values_at(2, value=0.95)},
        stored="bfloat16",
    )
    finding = one(seen, "ND703")
    assert finding.ids == ("layers.2/add#0", "layers.1/add#0")
    assert "80% to 95%" in finding.message


@pytest.mark.parametrize("share", [0.75, 0.2])
def test_what_is_not_most_is_not_told(share: float) -> None:
    assert run_rule(make_absorbed(*range(8), share=share), "ND703") == ()


def test_only_the_models_own_formats_count() -> None:
    """What bfloat16 would swallow of a float32 model is in the table."""
    assert run_rule(make_absorbed(*range(8), run="float32", stored="float32"), "ND703") == ()
    assert len(run_rule(make_absorbed(*range(8), run="float32", stored="float16"), "ND703")) == 1
