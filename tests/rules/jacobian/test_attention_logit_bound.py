from __future__ import annotations

from normdiag.evidence.attention_logits import AttentionLogits
from normdiag.evidence.precision import LogitBound, Precision
from tests.rules.builders import evidence, make_adds, norms, one, run_rule


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


def measure_logits(*largest: float):
    """Attentions on the adds of a stack, without q and k norms."""
    sites = make_adds(len(largest))
    logits = {
        f"layers.{i}.attn": AttentionLogits(
            add=add.id, layer=i, heads=1, query_rows=4, max_abs=value, sequence=0, head=0, query=3,
            key=1, median_max=value, median_weight=1.0, head_width=64, scale=1.0, is_fused=True,
        )
        for i, (add, value) in enumerate(zip(sites, largest, strict=True))
    }  # fmt: skip
    return evidence(adds=sites, attention_logits=logits)


def test_without_norms_of_q_and_k_the_measured_logit_is_judged() -> None:
    finding = one(measure_logits(30.0, 16405.0), "ND504")
    assert (finding.severity, finding.value) == ("warning", 16405.0)
    assert "up to 16,405 are computed" in finding.message
    assert "check the scale of q . k" in finding.advice
    assert run_rule(measure_logits(30.0, 120.0), "ND504") == ()
