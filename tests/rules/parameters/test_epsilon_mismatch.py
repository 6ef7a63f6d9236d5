from __future__ import annotations

from dataclasses import replace

import pytest

from tests.rules.builders import evidence, make_measurement, norms, one, run_rule, stack


def epsilons(values: dict[int, float], layers: int = 12, role: str = "branch-input", **given):
    """Layer -> epsilon; 1e-5 elsewhere."""
    made = norms(layers, role=role, eps=1e-5, **given)
    made = tuple(replace(norm, eps=values.get(norm.layer, norm.eps)) for norm in made)
    inputs = {norm.id: make_measurement(1e-5) for norm in made}
    return evidence(norms=made, stacks=(stack(layers),), norm_inputs=inputs)


def test_one_epsilon_everywhere_is_silent() -> None:
    assert run_rule(epsilons({}), "ND205") == ()
    assert run_rule(epsilons({5: 1.0000000656873453e-05}), "ND205") == ()


def test_one_that_differs() -> None:
    finding = one(epsilons({5: 1e-12}), "ND205")
    assert (finding.severity, finding.confidence) == ("warning", "medium")
    assert finding.value == pytest.approx(1e7) and finding.threshold == 1.5
    assert finding.ids == ("layers.5.norm",)
    assert "layers.5.norm has epsilon 1e-12" in finding.message
    assert "the 11 others of its role (branch-input) have 1e-05" in finding.message


def test_a_zero_is_infinitely_far() -> None:
    assert one(epsilons({5: 0.0}), "ND205").value == float("inf")


def test_where_as_many_have_one_as_the_other_nobody_is_odd() -> None:
    assert run_rule(epsilons(dict.fromkeys(range(5), 1e-06)), "ND205") == ()
    assert len(one(epsilons(dict.fromkeys(range(4), 1e-06)), "ND205").ids) == 4


@pytest.mark.parametrize("role", ["embedding", "final", "inner", "unattached"])
def test_other_roles_may_differ(role: str) -> None:
    assert run_rule(epsilons({5: 1e-12}, role=role), "ND205") == ()


def test_roles_are_compared_each_for_itself() -> None:
    seen = epsilons({})
    made = seen.architecture.norms
    heads = tuple(replace(n, id=f"{n.id}.q", role="qk", eps=1e-6) for n in made)
    both = replace(seen, architecture=replace(seen.architecture, norms=(*made, *heads)))
    assert run_rule(both, "ND205") == ()


def test_a_norm_outside_the_layers_may_differ() -> None:
    seen = epsilons({})
    first, *rest = seen.architecture.norms
    outside = replace(first, layer=None, eps=1e-6)
    beside = replace(seen, architecture=replace(seen.architecture, norms=(outside, *rest)))
    assert run_rule(beside, "ND205") == ()
