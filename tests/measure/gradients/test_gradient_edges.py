"""Gradient flow where something is out of the ordinary."""

from __future__ import annotations

import json
import math
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from transformers import BertConfig, BertForSequenceClassification

import normdiag
from normdiag.measure.gradients.gradients import compute_gradients, fit_trend
from tests.measure.gradient_cases import (
    BERT,
    IDS,
    ROUNDING,
    Loop,
    bert_norms,
    gpt2,
    llama,
    loop,
    objective_of,
)
from tests.measure.plain_gradients import Plain, rms


def test_layers_of_a_loop_own_their_branches_and_the_list_of_gains_its_own() -> None:
    torch.manual_seed(7)
    case = loop()
    model = case.model.double()
    measured = compute_gradients(model, objective_of(model, case.inputs), 1.0)
    plain = Plain(model, case.inputs, [model.last], case.loss)
    for i in range(3):
        own = plain.share(f"branches.{i}")
        assert measured.groups[f"branches.{i}"] == pytest.approx(own, rel=1e-9)
        (norm,) = (n for n in measured.norms if n.endswith(f"norm#{i}"))
        assert measured.norms[norm].gain == pytest.approx(plain.norm(f"gains.{i}"), rel=1e-9)
    gains = sum(plain.share(f"gains.{i}") for i in range(3))
    assert measured.groups["gains"] == pytest.approx(gains, rel=1e-9)


def test_padding_takes_no_part() -> None:
    torch.manual_seed(7)
    case = llama()
    model = case.model.double().eval()
    ids = torch.cat([IDS, IDS.flip(1)])
    mask = torch.ones_like(ids)
    mask[1, 8:] = 0
    inputs = {"input_ids": ids, "attention_mask": mask, "use_cache": False}
    measured = compute_gradients(model, objective_of(model, inputs), 1.0)
    real = mask.bool()

    def loss(out: Any) -> torch.Tensor:
        scores = [out.logits[0, :-1], out.logits[1, :7]]
        return cross_entropy(torch.cat(scores), torch.cat([ids[0, 1:], ids[1, 1:8]]))

    plain = Plain(model, inputs, case.norms, loss)
    assert measured.loss.tokens == 11 + 7
    assert measured.loss.value == pytest.approx(plain.loss, rel=ROUNDING)
    expected = [rms(g, real) for g in plain.stream[1:]]
    assert list(measured.stream.values()) == pytest.approx(expected, rel=ROUNDING)


def test_a_classifier() -> None:
    """The label is drawn; whichever it is, the gradients are those of its cross-entropy."""
    torch.manual_seed(7)
    model = BertForSequenceClassification(BertConfig(**BERT, num_labels=5)).double().eval()
    inputs = {"input_ids": IDS}
    measured = compute_gradients(model, objective_of(model, inputs), 1.0)
    losses = -model(**inputs).logits[0].log_softmax(-1)
    label = int((losses - measured.loss.value).abs().argmin())
    plain = Plain(
        model,
        inputs,
        bert_norms(model.bert.encoder),
        lambda out: -out.logits.log_softmax(-1)[0, label],
    )
    assert (measured.loss.kind, measured.loss.tokens) == ("classification", 1)
    assert measured.loss.value == pytest.approx(plain.loss, rel=1e-9)
    assert list(measured.stream.values()) == pytest.approx([rms(g) for g in plain.stream], rel=1e-9)
    assert measured.global_norm == pytest.approx(plain.global_norm, rel=1e-9)
    assert "classifier" in measured.groups and "bert.pooler" in measured.groups


class Choosing(Loop):
    """Weighs its tokens by scores that are computed with autograd off."""

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.table(ids)
        with torch.no_grad():
            scores = self.head(x)
        return super().forward(ids) * scores.sigmoid()


def test_where_the_model_switches_autograd_off_nothing_flows_and_the_rest_does() -> None:
    torch.manual_seed(7)
    model = Choosing().double()
    measured = compute_gradients(model, objective_of(model, {"ids": IDS}), 1.0)
    plain = Plain(
        model, {"ids": IDS}, [model.last], lambda out: cross_entropy(out[0, :-1], IDS[0, 1:])
    )
    assert measured.global_norm == pytest.approx(plain.global_norm, rel=1e-9)
    assert list(measured.stream.values())[-1] == pytest.approx(rms(plain.stream[0]), rel=1e-9)


class Hurt(Loop):
    """Whose head gives NaN."""

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return super().forward(ids) * float("nan")


def test_what_is_not_finite_is_told_as_such() -> None:
    torch.manual_seed(7)
    model = Hurt()
    report = normdiag.inspect(model, inputs={"ids": IDS}, measure=("gradients",))
    seen = json.loads(json.dumps(report.to_dict(), allow_nan=False))["measurements"]["gradients"]
    assert seen["loss"]["value"] == "NaN" and seen["global_norm"] == "NaN"
    assert set(seen["stream"].values()) == {"NaN"}
    assert seen["clipping"] == {"max_norm": 1.0, "factor": "NaN", "dominant_group": None}


class Whole(nn.Module):
    """Gives back whole numbers only."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Loop()

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.inner(ids).argmax(-1)


class Detached(Whole):
    """Cut off from autograd."""

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.inner(ids).detach()


class Rounded(Whole):
    """Rounds to whole numbers on the way: zero is the derivative, and it is one."""

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.inner(ids).round()


class Quantised(Whole):
    """Has linear layers that work on whole numbers."""

    def __init__(self) -> None:
        super().__init__()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.inner = torch.ao.quantization.quantize_dynamic(
                self.inner.eval(), {nn.Linear}, dtype=torch.qint8
            )

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.inner(ids)


@pytest.mark.parametrize(
    ("model", "why"),
    [
        (Whole, "no floating-point tensor"),
        (Detached, "does not follow"),
        (Quantised, "has no derivative"),
    ],
)
def test_where_there_is_nothing_to_differentiate_that_is_said(model: type, why: str) -> None:
    report = normdiag.inspect(model(), inputs={"ids": IDS}, measure=("gradients",))
    assert report.measurements.gradients is None
    (skipped,) = (s for s in report.coverage.skipped if s.what == "gradients")
    assert why in skipped.why


def test_a_gradient_of_zero_is_one() -> None:
    seen = compute_gradients(Rounded(), objective_of(Rounded(), {"ids": IDS}), 1.0)
    assert seen.global_norm == 0.0 and set(seen.stream.values()) == {0.0}
    assert (seen.clipping.factor, seen.clipping.dominant_group) == (1.0, None)
    assert seen.ratio_last_first is None and seen.trends == {}


def test_nothing_of_the_model_is_touched() -> None:
    """An optimiser that steps as soon as a gradient is accumulated does not step."""
    torch.manual_seed(7)
    model = Loop()
    stepped = []
    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(stepped.append)
    kept = model.head.weight.grad = torch.ones_like(model.head.weight)
    compute_gradients(model, objective_of(model, {"ids": IDS}), 1.0)
    assert stepped == [] and model.head.weight.grad is kept and bool((kept == 1).all())
    assert [n for n, p in model.named_parameters() if p.grad is not None] == ["head.weight"]


def test_float16_gradients_do_not_vanish() -> None:
    torch.manual_seed(7)
    case = gpt2()
    exact = compute_gradients(case.model.float().eval(), objective_of(case.model, case.inputs), 1.0)
    half = case.model.half()
    rough = compute_gradients(half, objective_of(half, case.inputs), 1.0)
    assert rough.global_norm == pytest.approx(exact.global_norm, rel=0.02)
    assert list(rough.stream.values()) == pytest.approx(list(exact.stream.values()), rel=0.05)


def test_a_straight_line_is_fitted_as_numpy_does() -> None:
    rng = np.random.default_rng(0)
    at = np.arange(12) / 2
    norms = np.exp(0.3 - 0.11 * at + 0.05 * rng.standard_normal(12))
    (slope, _), covariance = np.polyfit(at, np.log(norms), 1, cov=True)
    trend = fit_trend(dict(zip(at.tolist(), norms.tolist(), strict=True)))
    assert trend.rate == pytest.approx(math.exp(slope), rel=1e-12)
    assert trend.total == pytest.approx(math.exp(slope * 5.5), rel=1e-12)
    assert trend.rate_error == pytest.approx(trend.rate * covariance[0, 0] ** 0.5, rel=1e-9)
    assert fit_trend({0.0: 1.0}) is None and fit_trend({0.0: 1.0, 1.0: 2.0}).rate_error is None
    assert fit_trend({0.0: 1.0, 1.0: float("nan"), 2.0: 4.0}).rate == pytest.approx(2.0)
