from __future__ import annotations

from dataclasses import replace

import pytest

from normdiag.evidence.statistics import MedianMax
from tests.rules.builders import evidence, make_measurement, norms, one, run_rule


def sizes(values: dict[int, tuple[float, float]]):
    """Layer -> median and largest sigma_max; 3 elsewhere."""
    made = norms(8, eps=1e-12)
    inputs = {}
    for norm in made:
        seen, (median, largest) = make_measurement(1e-5), values.get(norm.layer, (3.0, 3.0))
        inputs[norm.id] = replace(
            seen,
            jacobian=replace(seen.jacobian, sigma_max=MedianMax(median=median, max=largest)),
        )
    return evidence(norms=made, norm_inputs=inputs)


@pytest.mark.parametrize(
    ("pair", "severity"),
    [
        ((65504.0, 65504.0), None),
        ((7e4, 8e4), "warning"),
        ((1.0, 1e6), "info"),
    ],
)
def test_typical_tokens_and_single_ones(pair: tuple[float, float], severity: str | None) -> None:
    findings = run_rule(sizes({3: pair}), "ND502")
    assert [finding.severity for finding in findings] == ([severity] if severity else [])


def test_what_is_said() -> None:
    finding = one(sizes({3: (5e5, 9e5), 4: (7e4, 7e4)}), "ND502")
    assert (finding.value, finding.threshold) == (5e5, 65504)
    assert finding.ids == ("layers.3.norm", "layers.4.norm")
    assert "eps 1e-12" in finding.message and "2 norms, layers 3-4" in finding.message


def test_where_the_typical_input_is_constant_another_rule_warns() -> None:
    seen = sizes({3: (1e6, 1e6)})
    inputs = dict(seen.measurements.norms)
    inputs["layers.3.norm"] = replace(inputs["layers.3.norm"], constant=41)
    constant = replace(seen, measurements=replace(seen.measurements, norms=inputs))
    assert one(constant, "ND502").severity == "info"
