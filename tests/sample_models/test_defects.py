"""The defects are what their docstrings say, by plain hooks and float64 numpy alone."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from tests.sample_models.calls import blocks, cosines, factory, norms, run, size, update_ratios


def test_the_cancelling_add_leaves_a_fifth() -> None:
    layers = blocks(run("cancelling_add:build"), "blocks")
    assert update_ratios(layers)[6] == pytest.approx(1, abs=0.05)
    assert cosines(layers)[6] < -0.99
    assert np.mean(size(layers[6].y) / size(layers[6].x)) < 0.2
    assert min(cosines(layers[:6] + layers[7:])) > -0.2


def test_the_dead_branch_is_the_only_one() -> None:
    ratios = update_ratios(blocks(run("dead_branch:build"), "blocks"))
    assert ratios[8] < 1e-6
    assert min(ratios[:8] + ratios[9:]) > 0.2


def test_the_gain_shrinks() -> None:
    calls = run("shrinking_gain:build")
    gains = [c.module.weight[0].item() for c in norms(calls) if c.name != "ln_f"]
    assert gains == pytest.approx([0.8**depth for depth in range(24)])
    ratios = update_ratios(blocks(calls, "blocks"))
    assert ratios[0] > 0.5 and ratios[-1] < 0.005


@pytest.mark.parametrize(("name", "share"), [("build", 0.999), ("build_healthy", 1e-5)])
def test_epsilon_dominates_the_tiny_embedding_only(name: str, share: float) -> None:
    first, *others = norms(run(f"tiny_embedding:{name}"))
    assert np.median(1e-5 / (first.x.var(-1) + 1e-5)) == pytest.approx(share, rel=0.5)
    assert max((1e-5 / (c.x.var(-1) + 1e-5)).max() for c in others) < 0.01


def test_the_dead_relu_makes_a_constant() -> None:
    variances = {c.name: c.x.var(-1) for c in norms(run("dead_relu:build"))}
    assert not variances.pop("blocks.3.ln2").any()
    assert all((v > 0.01).all() for v in variances.values())
    healthy = {c.name: c.x.var(-1) for c in norms(run("dead_relu:build_healthy"))}
    assert (healthy["blocks.3.ln2"] > 0.01).all()


def test_the_massive_activation_is_one_channel_of_one_token() -> None:
    layers = blocks(run("massive_activation:build"), "blocks")
    for depth, layer in enumerate(layers):
        largest = np.unravel_index(np.abs(layer.y).argmax(axis=None), layer.y.shape)
        assert (np.abs(layer.y).max() > 1000) == (depth >= 2)
        assert depth < 2 or largest[1:] == (0, 7)
        assert np.abs(layer.y[:, 1:]).max() < 10 and np.median(np.abs(layer.y)) < 2
    first, last = layers[0].y, layers[-1].y
    assert size(last[:, 1:]).mean() / size(first[:, 1:]).mean() == pytest.approx(1.25, abs=0.03)
    assert size(last).mean() / size(first).mean() > 20
    healthy = blocks(run("massive_activation:build_healthy"), "blocks")
    assert max(np.abs(layer.y).max() for layer in healthy) < 10


def test_the_nan_begins_in_one_gain_element() -> None:
    calls = run("nan_gain:build")
    first = next(c for c in calls if np.isnan(c.y).any())
    assert first.name == "blocks.3.ln1"
    assert set(np.argwhere(np.isnan(first.y))[:, -1]) == {5}
    assert np.isnan(calls[-1].y).all()
    model, _ = factory("nan_gain:build")()
    bad = {n: int(p.isnan().sum()) for n, p in model.named_parameters() if p.isnan().any()}
    assert bad == {"blocks.3.ln1.weight": 1}


def test_the_overflow_happens_in_an_add_of_finite_operands() -> None:
    calls = run("overflowing_add:build")
    first = next(c for c in calls if not np.isfinite(c.y).all())
    branch = next(c for c in calls if c.name == "blocks.3.fc")
    assert first.name == "blocks.3" and set(np.argwhere(np.isinf(first.y))[:, -1]) == {7}
    assert np.isfinite(branch.y).all() and (first.x + branch.y).max() > 65504
    assert np.isfinite(run("overflowing_add:build_healthy")[-1].y).all()


@pytest.mark.parametrize(("name", "vanishes"), [("build", True), ("build_healthy", False)])
def test_the_epsilon_vanishes_in_half_precision(name: str, vanishes: bool) -> None:
    for call in norms(run(f"half_epsilon:{name}")):
        assert isinstance(call.module, nn.LayerNorm) and call.module.weight.dtype == torch.float16
        assert (np.float16(call.module.eps) == 0) == vanishes


@pytest.mark.parametrize("name", ["build", "build_healthy"])
def test_the_forgotten_skip(name: str) -> None:
    calls = run(f"unexplained_add:{name}")
    for depth, layer in enumerate(blocks(calls, "blocks")):
        inside = {c.name.removeprefix(f"{layer.name}."): c.y for c in calls}
        skip = 0 if (depth, name) == (3, "build") else layer.x
        assert layer.y == pytest.approx(skip + inside["f"] + inside["g"], abs=1e-5)


@pytest.mark.parametrize(("name", "factor"), [("build", 2), ("build_healthy", 1)])
def test_the_hidden_write_doubles_a_channel(name: str, factor: int) -> None:
    calls = run(f"hidden_write:{name}")
    layer = next(c for c in calls if c.name == "blocks.3")
    added = layer.x + next(c for c in calls if c.name == "blocks.3.fc").y
    added[..., 7] *= factor
    assert layer.y == pytest.approx(added, abs=1e-5)
