"""What the norms are invariant to, in words."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from normdiag.evidence.invariances import (
    Invariances,
    KindInvariance,
    ScaleInvariantWeight,
)
from normdiag.report.report import Report
from tests.reports import llama
from tests.written import render_text

KIND: dict[str, Any] = {
    "norm": "norm.0",
    "method": "module",
    "scale": 0.0,
    "shift": 0.0,
    "batch": 0.0,
    "padding": 0.0,
    "train_vs_eval": 0.0,
    "batch_size_one": None,
}


def report(seen: Invariances | None) -> Report:
    made = llama(1)
    return replace(made, measurements=replace(made.measurements, invariances=seen))


def section_text(**given: Any) -> str:
    kind = KindInvariance(**{**KIND, **given})
    text = render_text(report(Invariances(kinds={"layernorm": kind})), width=400)
    return next(line for line in text.splitlines() if line.startswith("  layernorm"))


def test_a_change_that_epsilon_makes_is_none() -> None:
    assert "invariant to scale, shift, batch" in section_text(scale=9e-4)
    assert "changed by scale (0.11%)" in section_text(scale=1.1e-3)


def test_what_is_not_defined_is_left_out() -> None:
    assert "padding" not in section_text(padding=None)


def test_it_says_what_was_run() -> None:
    assert "(run at norm.0)" in section_text()
    assert "(replayed at norm.0)" in section_text(method="formula")


def test_what_is_left_of_one_token() -> None:
    assert "energy left at batch size 1 in train mode: 0%" in section_text(
        batch=0.4, batch_size_one=0.0
    )
    assert "batch size 1" not in section_text()


def test_many_scale_free_weights_are_cut_short() -> None:
    weights = tuple(
        ScaleInvariantWeight(weight=f"w{k}", norm="n", frobenius=2.0) for k in range(10)
    )
    text = render_text(report(Invariances(scale_invariant_weights=weights)), width=400)
    assert "w0 (2.00), w1 (2.00), w2 (2.00) and 7 more" in " ".join(text.split())


def test_nothing_measured_nothing_said() -> None:
    for seen in (None, Invariances()):
        assert "Invariances" not in render_text(report(seen))
