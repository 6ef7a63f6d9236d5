"""Every sample model is seeded, runs, and has the layers and norms that its docstring names."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest
import torch

from tests.sample_models.calls import blocks, factory, norms, run

FOLDER = Path(__file__).parents[2] / "sample_models"
FACTORIES = sorted(  # "file:function"
    f"{path.stem}:{node.name}"
    for path in FOLDER.glob("*.py")
    for node in ast.parse(path.read_text(encoding="utf-8")).body
    if isinstance(node, ast.FunctionDef) and node.name.startswith("build")
)


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
        ("broken_wiring:build", "blocks", 6, 2, "ln_f"),
        ("parallel:build", "blocks", 12, 1, "ln_f"),
        ("no_norm:build", "blocks", 48, 0, None),
        ("batch_norm:build", "blocks", 12, 1, "bn_f"),
        ("cancelling_add:build", "blocks", 12, 1, "ln_f"),
        ("dead_branch:build", "blocks", 12, 1, "ln_f"),
        ("scaled_branch:build", "layers", 24, 2, "ln_f"),
        ("shrinking_gain:build", "blocks", 24, 1, "ln_f"),
        ("gains:build", "blocks", 12, 1, "norm_f"),
        ("odd_norms:build", "blocks", 12, 1, "ln_f"),
        ("other_axes:build", "blocks", 12, 1, "ln_f"),
        ("tiny_embedding:build", "blocks", 6, 1, "ln_f"),
        ("dead_relu:build", "blocks", 6, 2, "ln_f"),
        ("massive_activation:build", "blocks", 12, 1, "norm_f"),
        ("nan_gain:build", "blocks", 6, 1, "ln_f"),
        ("overflowing_add:build", "blocks", 6, 1, "ln_f"),
        ("half_epsilon:build", "blocks", 6, 1, "ln_f"),
        ("unexplained_add:build", "blocks", 6, 1, "ln_f"),
        ("hidden_write:build", "blocks", 6, 1, "ln_f"),
        ("overwriting_branch:build", "blocks", 12, 1, "ln_f"),
        ("duplicate_layers:build", "blocks", 10, 1, "ln_f"),
        ("token_collapse:build", "layers", 24, 1, None),
        ("common_offset:build", "blocks", 6, 1, "ln_f"),
        ("outlier_channel:build", "blocks", 6, 1, "norm_f"),
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


def test_the_files_can_be_read_in_one_sitting() -> None:
    catalogues = ("__init__.py", "tiny_llama.py", "norms.py")
    builders = [p for p in FOLDER.glob("*.py") if p.name not in catalogues]
    lengths = {p.name: len(p.read_text(encoding="utf-8").splitlines()) for p in builders}
    assert max(lengths.values()) <= 90
