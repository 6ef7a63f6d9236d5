"""Checkpoints that are not whole, or not for here."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from tests.cases.tiny import change_config, ids, make_model, norms, save


@torch.no_grad()
def final_gain_missing(directory: Path) -> dict[str, Any]:
    """The other gains are 0.4, the one that is not there was 6: it comes up as ones."""
    model = make_model("Llama")
    for norm in norms(model):
        norm.weight.fill_(0.4)
    save(model, directory)
    path = directory / "model.safetensors"
    tensors = load_file(path)
    del tensors["model.norm.weight"]
    save_file(tensors, path, metadata={"format": "pt"})
    return ids()


def shard_missing(directory: Path) -> None:
    """One of several files is not there; it holds a norm of layer 1."""
    save(make_model("Llama"), directory, max_shard_size="40KB")
    index = json.loads((directory / "model.safetensors.index.json").read_text())
    (directory / index["weight_map"]["model.layers.1.input_layernorm.weight"]).unlink()


def file_cut_short(directory: Path) -> None:
    """The last 1000 bytes are not there."""
    save(make_model("Llama"), directory)
    path = directory / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1000])


def quantised_without_its_backend(directory: Path) -> None:
    save(make_model("Llama"), directory)
    change_config(directory, quantization_config={"quant_method": "gptq", "bits": 4})


def gguf_alone(directory: Path) -> None:
    """A header and no tensors."""
    (directory / "model-q4_0.gguf").write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, 0))
