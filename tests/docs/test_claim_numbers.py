"""Numbers of the claims page, computed anew: by hand, by numpy, by float64 autograd."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from docs.generators.claims import dilution, training
from docs.generators.claims.claim import Case
from docs.generators.claims.gradients import run_backward
from docs.generators.claims.invariance import EPS
from docs.generators.claims.output import normal_features
from docs.generators.claims.rank import draw_affine
from docs.generators.claims.stacks import CLASSES, build_theory, differentiate_stack
from tests.docs.claims_page import CLAIMS_BY_NAME

CASE = Case(8, 3)


def measured(name: str, case: Case = CASE) -> list[list]:
    return [list(row) for row in CLAIMS_BY_NAME[name].measure(case)]


def normalize(x: Tensor) -> Tensor:
    centred = x - x.mean(-1, keepdim=True)
    return centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt()


def run_by_hand(model: torch.nn.Module, x: Tensor, placement: str, times: float = 1.0):
    """Stream and writes of every add of the stack of theory, in float64."""
    for depth, layer in enumerate(model.layers):
        value = layer.attention.inner.value.weight.double()
        up, down = (layer.network.inner.get_submodule(n).weight.double() for n in ("up", "down"))
        gain = (depth + 1) ** -0.5 if placement == "lns" else times
        for is_attention in (True, False):
            read = x if placement in ("none", "post") else gain * normalize(x)
            if is_attention:
                write = (read.mean(-2, keepdim=True) @ value.T).expand_as(x)
            else:
                write = torch.relu(read @ up.T) @ down.T
            before, x = x, x + write
            yield before, write, x
            x = normalize(x) if placement == "post" else x


@torch.no_grad()
def test_growth_without_norms() -> None:
    model, inputs = build_theory(CASE, "none", 24)
    q = [float(y.square().mean()) for *_, y in run_by_hand(model, inputs.double(), "none")]
    layers = np.arange(48) / 2
    design = np.stack([layers[24:], np.ones(24)], 1)
    slope = np.linalg.lstsq(design, np.log(q[24:]), rcond=None)[0][0]
    _, factor, _, size = measured("growth_without_norms")[0]
    assert factor == pytest.approx(np.exp(slope), rel=1e-4)
    assert size == pytest.approx((q[-1] / q[0]) ** 0.5, rel=1e-4)


@torch.no_grad()
def test_remedies_of_dilution() -> None:
    rows = measured("remedies_of_dilution")
    for row, placement in ((rows[0], "pre"), (rows[2], "lns")):
        model, inputs = build_theory(CASE, placement, dilution.DEPTHS[0])
        *_, (x, write, _) = run_by_hand(model, inputs.double(), placement)
        assert row[1] == pytest.approx(
            float((write.norm(dim=-1) / x.norm(dim=-1)).mean()), rel=1e-3
        )


@torch.no_grad()
def test_a_constant_on_the_stream_makes_a_geometric_sum() -> None:
    model, x = CASE.build(lambda: dilution.ScaledStack(0.8, 1.0, 1.0))
    writes = []
    for norm, branch in zip(model.norms, model.branches, strict=True):
        writes = [0.8 * each for each in writes] + [branch(norm(x))]
        x = 0.8 * x + writes[-1]
    sizes = [float(each.square().mean()) for each in writes]
    _, _, factor, late, _ = measured("scaled_branches")[2]
    assert factor == pytest.approx((sizes[-1] / sizes[0]) ** (1 / 23), rel=1e-4)
    assert late == pytest.approx(sum(sizes[12:]) / sum(sizes), rel=1e-4)


def loss_by_hand(model: torch.nn.Module, y: Tensor, *, final_norm: bool) -> Tensor:
    logits = (normalize(y) if final_norm else y) @ model.head.weight.double().T
    targets = torch.arange(logits[..., 0].numel()) * 7919 % CLASSES
    return F.cross_entropy(logits.flatten(0, 1), targets)


@pytest.mark.parametrize("final_norm", [True, False])
def test_gradients_of_pre_norm_and_their_shares(final_norm: bool) -> None:
    model, inputs = build_theory(CASE, "pre", 6, last_norm=final_norm)
    *_, (_, _, y) = run_by_hand(model, inputs.double(), "pre")
    loss_by_hand(model, y, final_norm=final_norm).backward()
    run = run_backward(CASE, "pre", 6, final_norm)
    layers = [
        sum(float(p.grad.square().sum()) for p in layer.parameters()) for layer in model.layers
    ]
    assert run.blocks == pytest.approx(sum(layers) ** 0.5, rel=1e-3)
    assert run.layers[0] == pytest.approx(layers[0] ** 0.5, rel=1e-3)
    assert run.head == pytest.approx(float(model.head.weight.grad.norm()), rel=1e-3)


def test_gradients_of_sums_in_post_norm() -> None:
    """Each is the derivative by something added to that sum."""
    case, layers = Case(4, 1), 8
    model, inputs = build_theory(case, "post", layers, sequences=1)
    run = differentiate_stack((model, inputs))
    sums = []
    for _, _, y in run_by_hand(model, inputs.double().requires_grad_(), "post"):
        y.retain_grad()
        sums.append(y)
    loss_by_hand(model, normalize(sums[-1]), final_norm=False).backward()
    for i in (0, 7, 15):
        grad = sums[i].grad
        assert run.sums[i] == pytest.approx(float(grad.square().sum(-1).mean().sqrt()), rel=1e-3)
        assert run.common[i] == pytest.approx(float(grad.mean(-2).norm()), rel=1e-3)


def test_shares_of_the_clipped_direction() -> None:
    run = run_backward(CASE, "peri", 24)
    squares = np.array([*run.layers, run.head]) ** 2
    clipped = squares**0.5 * min(1, squares.sum() ** -0.5)
    row = measured("clipped_direction")[2]
    shares = clipped**2 / (clipped**2).sum()
    assert row[1:4] == pytest.approx([shares[:6].sum(), shares[18:24].sum(), shares[24]])
    assert row[4] == pytest.approx(clipped[-1] / run.head)


def test_training_at_rate_zero_leaves_the_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "RATE", 0.0)
    model, _ = CASE.build(lambda: training.TrainedStack("post"))
    draws, losses = torch.Generator().manual_seed(1000 + CASE.seed), []
    for _ in range(training.STEPS):
        x = y = torch.randn(CASE.tokens, training.WIDTH, generator=draws)
        for branch in model.branches:
            y = normalize(y + branch(y))
        scores = model.head(y).log_softmax(-1)
        best = x[:, : training.CLASSES].argmax(-1)
        losses.append(-scores.gather(1, best[:, None]).mean().item())
    loss = training.train_stack(CASE, "post", 1)
    assert loss == pytest.approx(np.mean(losses[-20:]), rel=1e-4)
    monkeypatch.setattr(training, "RATE", 1e-2)
    assert training.train_stack(Case(32, 0), "pre", 1) < 0.8 * np.log(training.CLASSES)


def test_jacobians_at_lambda_x() -> None:
    x = CASE.draw_normal(CASE.tokens, 64).double()
    for kind, times, value, _ in measured("inverse_scale"):
        if kind != "rmsnorm":
            continue
        largest = [
            float(torch.linalg.matrix_norm(torch.func.jacrev(rms_by_hand)(scale * row), 2))
            for scale in (times, 1.0)
            for row in x
        ]
        ratio = lower_median(largest[: CASE.tokens]) / lower_median(largest[CASE.tokens :])
        assert value == pytest.approx(times * ratio, rel=1e-4)


def lower_median(values: list[float]) -> float:
    return sorted(values)[(len(values) - 1) // 2]


def rms_by_hand(x: Tensor) -> Tensor:
    return x / (x.square().mean() + EPS).sqrt()


def test_scale_of_weights_before_a_norm() -> None:
    draws = CASE.draw_normal(2 * 8 + 64, 64).double().numpy()
    x, g, w = draws[:8], draws[8:16], draws[16:] / 8
    lengths = {}
    for times in (1.0, 0.1, 0.0001):
        z = x @ (times * w).T
        s = np.sqrt((z**2).mean(1, keepdims=True) + EPS)
        dz = g / s - z * (z * g).sum(1, keepdims=True) / (64 * s**3)
        lengths[times] = np.linalg.norm(dz.T @ x)
    rows = {row[1]: row for row in measured("scale_free_weight") if row[0] == "rmsnorm"}
    for times in (0.1, 0.0001):
        assert rows[times][3] == pytest.approx(times * lengths[times] / lengths[1.0], rel=1e-6)
    for kind, times, gain, size, _ in measured("output_scale"):
        z = x @ (times * w).T
        z = z - z.mean(1, keepdims=True) if kind == "layernorm" else z
        y = gain * z / np.sqrt((z**2).mean(1, keepdims=True) + EPS)
        assert size == pytest.approx(np.sqrt((y**2).mean()), rel=1e-6)


def test_ranks() -> None:
    case = Case(80, 2)
    x = case.draw_normal(80, 4).double().numpy()
    z = x - x.mean(1, keepdims=True)
    for column, eps in ((2, 0.0), (3, 1e-5), (4, 1.0)):
        y = z / np.sqrt((z**2).mean(1, keepdims=True) + eps)
        values = np.linalg.svd(y, compute_uv=False)
        assert measured("rank_of_a_norm", case)[2][column] == (values > 1e-9).sum() == 3


def test_gain_and_bias() -> None:
    case = Case(80, 2)
    n = case.draw_normal(80, 65).double().numpy()
    gain, bias = (each.numpy() for each in draw_affine(case, 64))
    x = n[:, 1:] + 3 * n[:, :1]
    z = x - x.mean(1, keepdims=True)
    y = gain * z / np.sqrt((z**2).mean(1, keepdims=True) + 1e-5) + bias
    means = y.mean(1)
    _, energy, common, correlation, along, rank = measured("gain_and_bias", case)[2]
    assert energy == pytest.approx(64 * (means**2).sum() / (y**2).sum(axis=1).sum() * 64)
    assert common == pytest.approx(means.mean() ** 2 / (means**2).mean())
    assert correlation == pytest.approx(abs(np.corrcoef(means, n[:, 0])[0, 1]))
    assert (y - bias) @ (1 / gain) == pytest.approx(0, abs=1e-9)
    assert along == 0
    assert rank == np.linalg.matrix_rank(y - y[:1], rtol=1e-9) == 63


def test_gradient_of_batch_norm() -> None:
    x = CASE.draw_normal(8, 64).double().numpy()
    g = CASE.draw_normal(16, 64).double().numpy()[-8:]
    s = np.sqrt(x.var(0) + 1e-5)
    y = (x - x.mean(0)) / s
    dx = (g - g.mean(0) - y * (g * y).mean(0)) / s
    rows = measured("gradient_of_one")
    assert [row[2] for row in rows[:2]] == [
        0,
        pytest.approx(np.linalg.norm(dx) / np.linalg.norm(g)),
    ]


def test_drift_with_position() -> None:
    torch.manual_seed(CASE.seed)
    draws = torch.nn.init.normal_(torch.nn.Linear(64, 64, bias=False).weight, std=1 / 8)
    weight, x = draws.detach().numpy(), torch.randn(8, 8, 64).numpy()
    y = np.stack([x[:, t] + x[:, : t + 1].mean(1) @ weight.T for t in range(8)], 1)
    squares = (y**2).mean((0, 2))
    ratio = squares[0] / squares[-2:].mean()
    assert measured("drift_with_position")[0][1] == pytest.approx(ratio, rel=1e-4)


def test_saturation() -> None:
    _, y = normal_features(CASE)
    tenth = float(np.arctanh(0.9**0.5))  # where 1 - tanh^2 is a tenth
    for name, source, gain, share in measured("saturation"):
        if source == "norm":
            bound = tenth if name == "tanh" else 2 * tenth
            assert share == pytest.approx(float((gain * y.abs() > bound).double().mean()))
