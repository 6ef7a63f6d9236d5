from __future__ import annotations

from normdiag.evidence.precision import LogitBound, Precision
from tests.rules.builders import evidence, norms, one, run_rule


def make_bounds(*bounds: float, seen: float | None = None):
    sites = norms(len(bounds), role="qk")
    limits = {
        norm.id: LogitBound(bound=bound, k_norm="k", scale=0.25, max_observed=seen)
        for norm, bound in zip(sites, bounds, strict=True)
    }
    return evidence(norms=sites, precision=Precision(formats={}, logit_bounds=limits))


def test_a_bound_that_is_none_is_told() -> None:
    finding = one(make_bounds(9000.0, 12000.0, 25600.0), "ND504")
    assert (finding.severity, finding.value, finding.threshold) == ("info", 25600.0, 1e4)
    assert finding.ids == ("layers.2.norm", "layers.1.norm")
    assert "up to 25,600 are allowed by the gains" in finding.message


def test_a_logit_that_was_seen_is_a_warning() -> None:
    finding = one(make_bounds(25600.0, seen=10001.0), "ND504")
    assert (finding.severity, finding.value) == ("warning", 10001.0)
    assert "up to 10,001 are computed" in finding.message


def test_a_large_bound_with_small_logits_stays_information() -> None:
    assert one(make_bounds(25600.0, seen=12.0), "ND504").severity == "info"


def test_a_bound_that_holds() -> None:
    assert run_rule(make_bounds(10000.0, seen=12.0), "ND504") == ()
    assert run_rule(make_bounds(), "ND504") == ()
