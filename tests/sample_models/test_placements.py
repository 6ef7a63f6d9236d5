"""The placements are what their docstrings say, by plain hooks and float64 numpy alone."""

from __future__ import annotations

import numpy as np
import pytest
from torch import nn

from tests.sample_models.calls import blocks, cosines, norms, out_norms, run, size, update_ratios


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
