from __future__ import annotations

import pytest

from tests.rules.builders import one, run_rule
from tests.rules.parameters.gains import ones, with_gains


@pytest.mark.parametrize(
    ("largest", "severity"),
    [
        (20.0, None),
        (21.0, "info"),
        (172.0, "info"),
        (2048.0, "info"),
        (2049.0, "warning"),
        (-6000.0, "warning"),
    ],
)
def test_the_borders(largest: float, severity: str | None) -> None:
    findings = run_rule(with_gains({3: ones(c20=largest)}), "ND202")
    assert [finding.severity for finding in findings] == ([severity] if severity else [])


def test_value_channel_and_size_are_told() -> None:
    finding = one(with_gains({3: 0.05 * ones(c20=6000.0)}), "ND202")
    assert finding.value == pytest.approx(6000) and finding.threshold == 2048
    assert finding.ids == ("layers.3.norm",)
    assert "300 in channel 20, median 0.0500" in finding.message
    assert "--site layers.3.norm" in finding.advice


def test_many_layers_are_one_finding() -> None:
    gains = {layer: ones(c7=3000.0 + layer) for layer in range(8)}
    finding = one(with_gains(gains), "ND202")
    assert finding.value == 3007 and "8 norms, layers 0-7 of layers; worst" in finding.message


def test_gains_that_are_mostly_dead_have_no_median() -> None:
    gain = 0 * ones()
    gain[0] = 1
    assert run_rule(with_gains({3: gain}), "ND202") == ()
