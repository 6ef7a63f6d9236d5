"""Checkpoints whose weights are stored quantised and can be run on a CPU all the same."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import normdiag
from normdiag.evidence.architecture import Architecture
from normdiag.loading.interface import LoadedModel

Load = Callable[..., LoadedModel]
BLOCK = 32
PLAIN = ["lm_head"]
BITNET = {"quant_method": "bitnet", "modules_to_not_convert": PLAIN}


def bitnet(name: str, weight: torch.Tensor) -> Iterator[tuple[str, torch.Tensor]]:
    """Ternary weights, four to a byte (Ma et al., 2024): 2 bits each, a quarter of the rows."""
    scale = weight.abs().mean()
    codes = (weight / scale).round().clamp(-1, 1).to(torch.int8) + 1
    packed = torch.zeros(weight.shape[0] // 4, weight.shape[1], dtype=torch.uint8)
    for part, rows in enumerate(codes.to(torch.uint8).chunk(4)):
        packed |= rows << 2 * part
    yield name, packed
    yield name + "_scale", (1 / scale).reshape(1)


def fp8(name: str, weight: torch.Tensor) -> Iterator[tuple[str, torch.Tensor]]:
    """float8 with one scale to a block, as DeepSeek-V3 is stored."""
    rows, columns = weight.shape
    blocks = weight.reshape(rows // BLOCK, BLOCK, columns // BLOCK, BLOCK)
    scale = blocks.abs().amax((1, 3)) / torch.finfo(torch.float8_e4m3fn).max
    stored = blocks / scale[:, None, :, None]
    yield name, stored.reshape(rows, columns).to(torch.float8_e4m3fn)
    yield name + "_scale_inv", scale


KINDS = {
    "bitnet": (
        bitnet,
        BITNET | {"linear_class": "bitlinear", "quantization_mode": "offline"},
        "(bitnet) and run quantised",
    ),
    "bitnet online": (
        lambda name, weight: [(name, weight)],
        BITNET | {"linear_class": "autobitlinear", "quantization_mode": "online"},
        "(bitnet) and run quantised",
    ),
    "fp8": (
        fp8,
        {
            "quant_method": "fp8",
            "weight_block_size": [BLOCK, BLOCK],
            "modules_to_not_convert": PLAIN,
        },
        "(fp8) and dequantised",
    ),
    "unknown": (
        lambda name, weight: [(name, weight)],
        {"quant_method": "nothing-that-exists"},
        "(nothing-that-exists) by a method that transformers does not know",
    ),
}


def quantise(folder: Path, kind: str) -> None:
    """Store a Llama's projections in this form."""
    store, settings, _ = KINDS[kind]
    tensors: dict[str, torch.Tensor] = {}
    for name, weight in load_file(folder / "model.safetensors").items():
        tensors |= dict(store(name, weight)) if "_proj" in name else {name: weight}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"quantization_config": settings}))


def without_multipliers(report: normdiag.Report) -> Architecture:
    """A scale of stored weights multiplies the branch too."""
    architecture = report.architecture
    adds = tuple(replace(add, multipliers=()) for add in architecture.residual_adds)
    return replace(architecture, residual_adds=adds)


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_traced_like_any_other(llama_dir: Path, copy_of_llama: Path, kind: str) -> None:
    quantise(copy_of_llama, kind)
    base = normdiag.inspect(str(llama_dir), measure=("stream",))
    report = normdiag.inspect(str(copy_of_llama), measure=("stream",))
    assert without_multipliers(report) == without_multipliers(base)
    assert report.coverage.unexplained_adds == report.coverage.unexplained_norms == ()
    assert report.measurements.closure["model.layers"].max_rel_error < 1e-5
    assert report.subject.loading == base.subject.loading
    assert KINDS[kind][2] in (report.subject.probe.note or "")


def test_weights_noted_as_dequantised_are(llama_dir: Path, copy_of_llama: Path, run: Load) -> None:
    quantise(copy_of_llama, "fp8")
    exact, state = load_file(llama_dir / "model.safetensors"), run(copy_of_llama).model.state_dict()
    assert state.keys() == exact.keys()
    for name, weight in exact.items():
        error = (state[name].float() - weight).abs().max()
        assert error <= 2**-4 * weight.abs().max()  # half a step of float8's three bits
        assert (error > 0) == ("_proj" in name)
