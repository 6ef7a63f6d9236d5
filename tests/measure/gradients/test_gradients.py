"""Gradient flow against plain autograd in float64, model by model."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from normdiag.evidence.gradients import Gradients
from normdiag.measure.gradients.gradients import compute_gradients
from tests.measure.gradient_cases import (
    CASES,
    IDS,
    MASK,
    ROUNDING,
    Case,
    Loop,
    at_masks,
    objective_of,
)
from tests.measure.plain_gradients import Plain, rms


@pytest.fixture(scope="module", params=CASES)
def both(request) -> tuple[Case, Gradients, Plain]:
    """What normdiag measures, and what plain autograd gives."""
    torch.manual_seed(7)
    case = CASES[request.param]()
    model = case.model.double().eval()
    objective = objective_of(model, case.inputs)
    measured = compute_gradients(model, objective, 1.0)
    loss = case.loss
    if case.kind == "masked-lm":
        masked = objective.batch.inputs["input_ids"]
        assert int((masked == MASK).sum()) == round(0.15 * IDS.numel())

        def loss(out: Any) -> torch.Tensor:
            return at_masks(out, masked)

    return case, measured, Plain(model, objective.batch.inputs, case.norms, loss)


def test_the_loss(both: tuple[Case, Gradients, Plain]) -> None:
    case, measured, plain = both
    assert measured.loss.kind == case.kind
    assert measured.loss.value == pytest.approx(plain.loss, rel=ROUNDING)
    tokens = {"masked-lm": 2, "random-projection": 12}.get(case.kind, 11)
    assert measured.loss.tokens == tokens


def test_the_stream(both: tuple[Case, Gradients, Plain]) -> None:
    case, measured, plain = both
    if not case.norms:
        pytest.skip("no module is given the stream")
    expected = [rms(g) for i, g in enumerate(plain.stream) if i not in case.dropped]
    assert list(measured.stream.values()) == pytest.approx(expected, rel=ROUNDING)


def test_the_parameters(both: tuple[Case, Gradients, Plain]) -> None:
    case, measured, plain = both
    assert measured.global_norm == pytest.approx(plain.global_norm, rel=ROUNDING)
    if case.model.__class__ is not Loop:
        expected = {group: plain.share(group) for group in case.groups}
        assert measured.groups == pytest.approx(expected, rel=1e-4, abs=1e-9)
    assert set(measured.groups) == case.groups
    assert math.fsum(measured.groups.values()) == pytest.approx(1.0, rel=1e-12)


def test_clipping(both: tuple[Case, Gradients, Plain]) -> None:
    _, measured, plain = both
    assert measured.clipping.factor == pytest.approx(plain.clip_factor, rel=ROUNDING)
    assert measured.clipping.dominant_group == max(measured.groups, key=measured.groups.get)


def test_the_gains_and_biases(both: tuple[Case, Gradients, Plain]) -> None:
    case, measured, plain = both
    for norm in case.of_norms:
        got = measured.norms[norm]
        assert got.gain == pytest.approx(plain.norm(f"{norm}.weight"), rel=ROUNDING)
        if f"{norm}.bias" in plain.parameters:
            assert got.bias == pytest.approx(plain.norm(f"{norm}.bias"), rel=ROUNDING)
        else:
            assert got.bias is None


def test_ratios_are_of_the_stream(both: tuple[Case, Gradients, Plain]) -> None:
    case, measured, _ = both
    names = list(measured.stream)
    encoders = [n for n in names if n.startswith("encoder.block")]
    main = [n for n in names if n not in encoders] if case.kind.startswith("seq") else names
    expected = measured.stream[main[-1]] / measured.stream[main[0]]
    assert measured.ratio_last_first == pytest.approx(expected, rel=1e-12)
    if encoders:
        first, last = measured.stream[encoders[0]], measured.stream[encoders[-1]]
        assert measured.ratios["encoder.block"] == pytest.approx(last / first, rel=1e-12)
