"""How large the stream is at initialisation, by placement: T5, T6, T8 to T11 and half of T12.

Xiong et al. 2020 (2002.04745), Kim et al. 2025 (Peri-LN, 2502.02732), Sun et al. 2025 (LNS,
2502.05795), Wang et al. 2022 (DeepNet, 2203.00555), Bachlechner et al. 2020 (ReZero, 2003.04887).
"""

from __future__ import annotations

import numpy as np
import pytest

import normdiag
from sample_models import theory
from sample_models.wirings import PLACEMENTS
from tests.papers.stacks import mean_squares, recursion, report, token_cosine

XIONG = {"width": 256, "seeds": 3, "shape": (8, 16)}
DEPTHS = [6, 12, *(pytest.param(n, marks=pytest.mark.slow) for n in (8, 10, 16, 24, 32, 48, 64))]
TWO = [12, pytest.param(48, marks=pytest.mark.slow)]


def test_t5_post_norm_sees_three_halves_behind_the_network() -> None:
    """Lemma 2: E||x_5||^2 = 3/2 d (3 %), and q = 1 behind every norm (1e-4)."""
    sums = mean_squares("post", 12)[:, 1::2]
    assert sums.mean() == pytest.approx(1.5, rel=0.03)
    for seed in range(4):
        skips = [a.rms.skip for a in report("post", 12, seed=seed).measurements.stream.values()]
        assert np.square(skips[1:]) == pytest.approx(1.0, abs=1e-4)


@pytest.mark.parametrize("layers", DEPTHS)
def test_t6_pre_norm_grows_between_the_bounds(layers: int) -> None:
    """Lemma 2: (1 + l/2) d <= E||x_l||^2 <= (1 + 3l/2) d (5 %); the recursion to 10 %."""
    q, layer = mean_squares("pre", layers, **XIONG)[:, 1::2].mean(0), np.arange(1, layers + 1)
    assert (q >= 0.95 * (1 + layer / 2)).all()
    assert (q <= 1.05 * (1 + 3 * layer / 2)).all()
    assert q == pytest.approx(recursion(layers, tokens=16), rel=0.1)


def test_t8_tokens_become_alike() -> None:
    """Cosine between tokens after 12 layers: .77 in pre-norm (.03), above .99 in post-norm."""
    assert token_cosine("pre", 12, **XIONG) == pytest.approx(0.77, abs=0.03)
    assert token_cosine("post", 12, **XIONG) > 0.99


@pytest.mark.parametrize("layers", TWO)
@pytest.mark.parametrize("placement", ["peri", "output-norm"])
def test_t9_a_norm_on_the_branch_output_adds_one_per_add(placement: str, layers: int) -> None:
    """q_L = 1 + 2L (5 %); increments 1 (10 %); what is written is of unit size exactly."""
    q = mean_squares(placement, layers, width=256)
    assert q[:, -1].mean() == pytest.approx(1 + 2 * layers, rel=0.05)
    assert np.diff(q.mean(0)).mean() == pytest.approx(1.0, rel=0.1)
    adds = report(placement, layers, 256).measurements.stream.values()
    assert np.square([a.rms.branch for a in adds]) == pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize(
    ("placement", "layers", "measured"),
    [
        ("lns", 12, 3.5),
        ("scaled-init", 12, 1.34),
        ("layer-scale", 12, 1.077),
        pytest.param("lns", 48, 5.0, marks=pytest.mark.slow),
        pytest.param("scaled-init", 48, 1.34, marks=pytest.mark.slow),
        pytest.param("layer-scale", 48, 1.327, marks=pytest.mark.slow),
    ],
)
def test_t10_scaled_branches_grow_little(placement: str, layers: int, measured: float) -> None:
    """The number measured before and the recursion with the branch's scale in it, both to 5 %."""
    scale = {
        "lns": lambda layer: 1 / layer,
        "scaled-init": lambda layer: 1 / (2 * layers),
        "layer-scale": lambda layer: 0.1**2,
    }[placement]
    q = mean_squares(placement, layers)[:, -1].mean()
    assert q == pytest.approx(measured, rel=0.05)
    assert q == pytest.approx(recursion(layers, tokens=8, squared_scale=scale)[-1], rel=0.05)


@pytest.mark.parametrize(
    ("layers", "alpha", "beta"),
    [(12, 2.2134, 0.3195), pytest.param(100, 3.7606, 0.1880, marks=pytest.mark.slow)],
)
def test_t11_deepnorm_constants(layers: int, alpha: float, beta: float) -> None:
    """alpha as it is read from the graph, beta of the model (1e-4); here W_2 holds W_1's too."""
    found = report("deepnorm", layers)
    assert found.architecture.stacks[0].placement == "deepnorm"
    scales = [add.skip_scale.value for add in found.architecture.residual_adds]
    assert scales == pytest.approx([alpha] * 2 * layers, abs=1e-4)
    model, _ = theory.build("deepnorm", 192, layers)
    down = model.layers[0].network.inner.down.weight.detach().double()
    over_xavier = float(down.square().mean().sqrt()) * 192**0.5
    assert over_xavier**0.5 == pytest.approx(beta, rel=0.01)
    assert PLACEMENTS["deepnorm"](layers, 0).init ** 0.5 == pytest.approx(beta, abs=1e-4)


def test_t11_deepnorm_writes_little() -> None:
    """The network's output has the rms (8N)^(-1/2) / sqrt(2) = .0722 for N = 12 (5 %)."""
    written = [
        add.rms.branch
        for seed in range(4)
        for add in list(report("deepnorm", 12, seed=seed).measurements.stream.values())[1::2]
    ]
    assert np.mean(written) == pytest.approx(0.0722, rel=0.05)


def test_t12_rezero_begins_as_the_identity() -> None:
    """q is constant, J - I is 0 exactly, and no branch weight has a gradient."""
    q = mean_squares("rezero", 12)
    assert q == pytest.approx(np.repeat(q[:, :1], 24, axis=1), rel=1e-12)
    model, inputs = theory.build("rezero", width=32, layers=6)
    blocks = normdiag.inspect(model, inputs=inputs, measure=("jacobians",)).measurements.blocks
    assert len(blocks) == 12 + 6 + 1  # adds, layers, the stack
    assert {(b.sigma_max, b.sigma_min) for b in blocks.values()} == {(1.0, 1.0)}
    assert {b.distance for b in blocks.values() if b.span == "add"} == {0.0}
    model(inputs).square().sum().backward()
    gradients = {n: float(p.grad.abs().max()) for n, p in model.layers.named_parameters()}
    assert {g for name, g in gradients.items() if not name.endswith("scale")} == {0.0}
    assert min(g for name, g in gradients.items() if name.endswith("scale")) > 0
