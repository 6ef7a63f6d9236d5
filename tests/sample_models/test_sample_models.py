"""Each sample model is what its docstring says: by plain hooks and float64 numpy alone."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import nn

FOLDER = Path(__file__).parents[2] / "sample_models"
FACTORIES = sorted(  # "file:function"
    f"{path.stem}:{node.name}"
    for path in FOLDER.glob("*.py")
    for node in ast.parse(path.read_text(encoding="utf-8")).body
    if isinstance(node, ast.FunctionDef) and node.name.startswith("build")
)


class Call(NamedTuple):
    """One call of one module, in the order in which they ended."""

    name: str
    module: nn.Module
    x: np.ndarray
    y: np.ndarray


def factory(target: str) -> Any:
    module, name = target.split(":")
    return getattr(importlib.import_module(f"sample_models.{module}"), name)


def run(target: str) -> list[Call]:
    """Every module call of one forward, by hooks."""
    model, inputs = factory(target)()
    calls: list[Call] = []

    def keep(name: str) -> Any:
        def hook(module: nn.Module, args: tuple[Any, ...], y: torch.Tensor) -> None:
            calls.append(Call(name, module, args[0].double().numpy(), y.double().numpy()))

        return hook

    for name, module in model.named_modules():
        module.register_forward_hook(keep(name))
    with torch.no_grad():
        model(inputs)
    return calls


def blocks(calls: list[Call], prefix: str) -> list[Call]:
    """The calls of the repeated layers: `blocks.0`, `blocks.1`, .. or one module many times."""
    return [c for c in calls if re.fullmatch(rf"{prefix}(\.\d+)?", c.name)]


def norms(calls: list[Call]) -> list[Call]:
    return [
        c
        for c in calls
        if "Norm" in type(c.module).__name__
        and list(c.module.parameters())
        and not list(c.module.children())
    ]


def size(x: np.ndarray) -> np.ndarray:
    return np.linalg.norm(x, axis=-1)


def update_ratios(layers: list[Call]) -> list[float]:
    return [float(np.median(size(c.y - c.x) / size(c.x))) for c in layers]


def cosines(layers: list[Call]) -> list[float]:
    return [
        float(np.median(((c.y - c.x) * c.x).sum(-1) / size(c.x) / size(c.y - c.x))) for c in layers
    ]


def out_norms(layers: list[Call]) -> np.ndarray:
    return np.array([size(c.y).mean() for c in layers])


@pytest.mark.parametrize("target", FACTORIES)
class TestEvery:
    def test_is_seeded_and_leaves_the_callers_generator_alone(self, target: str) -> None:
        before = torch.get_rng_state()
        first, inputs = factory(target)()
        assert torch.equal(torch.get_rng_state(), before)
        torch.manual_seed(12345)
        second, again = factory(target)()
        assert torch.equal(inputs, again)
        for a, b in zip(first.state_dict().values(), second.state_dict().values(), strict=True):
            assert torch.equal(a.nan_to_num(), b.nan_to_num())

    def test_is_in_eval_mode_and_runs(self, target: str) -> None:
        model, inputs = factory(target)()
        assert not any(module.training for module in model.modules())
        with torch.no_grad():
            output = model(inputs)
        assert output.shape[:2] == inputs.shape[:2] == (2, 16)

    def test_says_what_must_be_found(self, target: str) -> None:
        module = importlib.import_module(f"sample_models.{target.split(':')[0]}")
        assert "normdiag must find\n    " in (module.__doc__ or "")
        name = target.split(":")[1]
        assert name == "build" or f"`{name}`" in (module.__doc__ or "")


@pytest.mark.parametrize(
    ("target", "prefix", "layers", "norms_per_layer", "final"),
    [
        ("pre_norm:build", "blocks", 48, 1, "ln_f"),
        ("pre_norm:build_without_final_norm", "blocks", 48, 1, None),
        ("pre_norm_shared:build", "block", 48, 1, "ln_f"),
        ("post_norm:build", "layers", 64, 1, None),
        ("rms_pre_norm:build", "layers", 24, 1, "norm"),
        ("sandwich:build", "blocks", 24, 2, "norm_f"),
        ("branch_output:build", "blocks", 24, 1, "norm_f"),
        ("parallel:build", "blocks", 12, 1, "ln_f"),
        ("no_norm:build", "blocks", 48, 0, None),
        ("batch_norm:build", "blocks", 12, 1, "bn_f"),
        ("cancelling_add:build", "blocks", 12, 1, "ln_f"),
        ("dead_branch:build", "blocks", 12, 1, "ln_f"),
        ("scaled_branch:build", "layers", 24, 2, "ln_f"),
        ("shrinking_gain:build", "blocks", 24, 1, "ln_f"),
        ("tiny_embedding:build", "blocks", 6, 1, "ln_f"),
        ("dead_relu:build", "blocks", 6, 2, "ln_f"),
        ("massive_activation:build", "blocks", 12, 1, "norm_f"),
        ("nan_gain:build", "blocks", 6, 1, "ln_f"),
        ("overflowing_add:build", "blocks", 6, 1, "ln_f"),
        ("half_epsilon:build", "blocks", 6, 1, "ln_f"),
        ("unexplained_add:build", "blocks", 6, 1, "ln_f"),
        ("hidden_write:build", "blocks", 6, 1, "ln_f"),
    ],
)
def test_layers_and_norms(
    target: str, prefix: str, layers: int, norms_per_layer: int, final: str | None
) -> None:
    calls = run(target)
    assert len(blocks(calls, prefix)) == layers
    inside = [c for c in norms(calls) if c.name.startswith(f"{prefix}.")]
    outside = [c.name for c in norms(calls) if not c.name.startswith(f"{prefix}.")]
    assert len(inside) == layers * norms_per_layer
    assert outside == ([] if final is None else [final])
    assert all(c.x.shape[-1] == 64 for c in blocks(calls, prefix))


def test_pre_norm_adds_the_same_square_per_block() -> None:
    layers = blocks(run("pre_norm:build"), "blocks")
    depth, y = np.arange(1, 49), out_norms(layers)
    straight, curved = np.corrcoef(depth, y**2)[0, 1], np.corrcoef(depth, np.log(y))[0, 1]
    assert straight > 0.999 > curved
    ratios = update_ratios(layers)
    assert ratios[0] == pytest.approx(0.6, abs=0.05) and ratios[-1] < 0.2


def test_without_its_final_norm_pre_norm_ends_large() -> None:
    with_norm, without = run("pre_norm:build")[-1], run("pre_norm:build_without_final_norm")[-1]
    assert size(with_norm.y).mean() == pytest.approx(8, rel=1e-3)
    assert size(without.y).mean() == pytest.approx(33, abs=0.5)


def test_shared_updates_line_up() -> None:
    calls = run("pre_norm_shared:build")
    layers = blocks(calls, "block")
    assert len({id(c.module) for c in layers}) == 1
    cosine = cosines(layers)
    assert abs(cosine[0]) < 0.1 and min(cosine[5:]) > 0.5
    separate = blocks(run("pre_norm:build"), "blocks")
    assert out_norms(layers)[-1] > 5 * out_norms(separate)[-1]


def test_post_norm_keeps_the_size() -> None:
    layers = blocks(run("post_norm:build"), "layers")
    for layer in layers[1:]:
        assert size(layer.x) == pytest.approx(8, rel=1e-4)


def test_rms_norm_is_written_out_by_hand() -> None:
    calls = run("rms_pre_norm:build")
    for call in norms(calls):
        expected = call.x / np.sqrt(np.square(call.x).mean(-1, keepdims=True) + 1e-6)
        assert call.y == pytest.approx(expected, abs=1e-5)
        assert not isinstance(call.module, nn.RMSNorm) and not hasattr(call.module, "eps")


@pytest.mark.parametrize("name", ["sandwich", "branch_output"])
def test_a_norm_on_the_branch_output_fixes_what_is_added(name: str) -> None:
    calls = run(f"{name}:build")
    for layer in blocks(calls, "blocks"):
        assert size(layer.y - layer.x) == pytest.approx(8, rel=1e-3)
        inside = [c for c in calls if c.name.startswith(f"{layer.name}.")]
        assert layer.y - layer.x == pytest.approx(inside[-1].y, abs=1e-4)
        first = next(c for c in inside if c.name.count(".") == 2)
        assert ("Norm" in type(first.module).__name__) == (name == "sandwich")
        assert first.x == pytest.approx(layer.x)


def test_parallel_branches_read_one_norm() -> None:
    calls = run("parallel:build")
    for layer in blocks(calls, "blocks"):
        by_name = {c.name.removeprefix(f"{layer.name}."): c for c in calls}
        norm, attention, mlp = (by_name[n] for n in ("ln", "attention", "mlp"))
        assert norm.x == pytest.approx(layer.x)
        assert attention.x == pytest.approx(norm.y) and mlp.x == pytest.approx(norm.y)
        assert layer.y == pytest.approx(layer.x + attention.y + mlp.y, abs=1e-5)


def test_no_norm_grows_geometrically() -> None:
    layers = blocks(run("no_norm:build"), "blocks")
    depth, y = np.arange(48), out_norms(layers)
    assert np.exp(np.polyfit(depth, np.log(y), 1)[0]) == pytest.approx(1.15, abs=0.01)
    assert np.corrcoef(depth, np.log(y))[0, 1] > 0.999
    assert y[-1] / y[0] > 300


def test_batch_norm_uses_its_running_statistics() -> None:
    for call in norms(run("batch_norm:build")):
        bn = call.module
        assert isinstance(bn, nn.BatchNorm1d)
        mean, var = bn.running_mean.double().numpy(), bn.running_var.double().numpy()
        assert call.y == pytest.approx((call.x - mean) / np.sqrt(var + bn.eps), abs=1e-5)
        assert 0.5 < var.mean() < 2.5  # settled: near the variance that this depth has


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


def test_the_scaled_branch_keeps_the_size() -> None:
    calls = run("scaled_branch:build")
    layers = blocks(calls, "layers")
    for layer in layers:
        inside = {
            c.name.rpartition(".")[2]: c for c in calls if c.name.startswith(f"{layer.name}.")
        }
        written = (inside["f"].y + inside["g"].y) / np.sqrt(48)
        assert layer.y - layer.x == pytest.approx(written, abs=1e-5)
    assert 1 < size(layers[-1].y).mean() / size(layers[0].x).mean() < 1.2


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


def test_the_files_can_be_read_in_one_sitting() -> None:
    builders = [p for p in FOLDER.glob("*.py") if p.name not in ("__init__.py", "tiny_llama.py")]
    lengths = {p.name: len(p.read_text(encoding="utf-8").splitlines()) for p in builders}
    assert max(lengths.values()) <= 90
