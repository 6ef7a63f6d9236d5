from __future__ import annotations

import pytest

from tests.rules.builders import evidence, norms, one, run_rule


@pytest.mark.parametrize(
    ("kind", "features", "removed"),
    [
        ("layernorm", 8, None),
        ("layernorm", 7, 2 / 7),
        ("layernorm", 4, 0.5),
        ("layernorm", 1, 1.0),
        ("groupnorm", 2, 1.0),
        ("rmsnorm", 4, None),
        ("rmsnorm", 3, 1 / 3),
        ("l2norm", 1, 1.0),
        ("batchnorm", 1, None),
        ("other", 1, None),
    ],
)
def test_the_share_of_directions_that_is_removed(kind: str, features: int, removed) -> None:
    findings = run_rule(evidence(norms=norms(3, kind=kind, features=features)), "ND106")
    assert [finding.value for finding in findings] == ([] if removed is None else [removed])


def test_what_is_said() -> None:
    finding = one(evidence(norms=norms(3, kind="layernorm", features=4)), "ND106")
    assert (finding.severity, finding.threshold) == ("warning", 0.25)
    assert "a norm over 4 features removes 0.500 of all directions" in finding.message
    assert "at 3 norms, layers 0-2 of layers" in finding.message
