from __future__ import annotations

from dataclasses import replace

import pytest

from tests.rules.builders import evidence, norms, one, run_rule, stack


def axes(odd: dict[int, tuple[tuple[int, ...], int]], usual: tuple[int, ...] = (-1,), **given):
    """Layer -> axes and how many elements they have; `usual` and 64 elsewhere."""
    made = norms(8, shape=(2, 16, 64), axes=usual, **given)
    made = tuple(
        replace(norm, axes=odd[norm.layer][0], features=odd[norm.layer][1])
        if norm.layer in odd
        else norm
        for norm in made
    )
    return evidence(norms=made, stacks=(stack(8),))


def test_the_features_are_expected() -> None:
    assert run_rule(axes({}), "ND107") == ()
    assert run_rule(axes({}, usual=(-3,)), "ND107") == ()  # channels first throughout


@pytest.mark.parametrize(
    ("odd", "features"), [((-2,), 16), ((-2, -1), 1024), ((-2,), 64), ((-3,), 2)]
)
def test_another_axis_is_a_warning(odd: tuple[int, ...], features: int) -> None:
    finding = one(axes({5: (odd, features)}), "ND107")
    assert (finding.severity, finding.ids) == ("warning", ("layers.5.norm",))
    assert (finding.value, finding.threshold) == (features, 64.0)
    assert f"of (2, 16, 64), {features} elements" in finding.message


def test_all_of_them_over_the_tokens() -> None:
    assert len(one(axes(dict.fromkeys(range(8), ((-2,), 16))), "ND107").ids) == 8


@pytest.mark.parametrize(
    "given", [{"role": "qk"}, {"role": "inner"}, {"role": "unattached"}, {"kind": "groupnorm"}]
)
def test_norms_inside_a_branch_and_groups_are_not_judged(given: dict) -> None:
    assert run_rule(axes({5: ((-2,), 16)}, **given), "ND107") == ()
