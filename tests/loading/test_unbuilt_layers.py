"""A configuration with fewer layers than the checkpoint holds is a warning."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

import normdiag
from normdiag.loading.unbuilt_layers import find_unbuilt_layers


@pytest.mark.parametrize("layers", [0, 1])
def test_layers_that_the_configuration_does_not_build(copy_of_llama: Path, layers: int) -> None:
    path = copy_of_llama / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"num_hidden_layers": layers}))
    report = normdiag.inspect(str(copy_of_llama), measure="stream,norms")
    expected = tuple(f"model.layers.{i}" for i in range(layers, 2))
    assert report.subject.loading.unbuilt_layers == expected
    (finding,) = [f for f in report.findings if f.code == "ND003"]
    assert finding.severity == "warning"
    many = 9 * (2 - layers)
    assert finding.message.startswith(f"{many} parameters of {2 - layers} layer")


def test_a_prediction_layer_behind_the_last_one_is_none(copy_of_llama: Path) -> None:
    path = copy_of_llama / "model.safetensors"
    tensors = load_file(path)
    extra = {
        name.replace("layers.1.", "layers.2."): tensor.clone()
        for name, tensor in tensors.items()
        if "layers.1." in name
    }
    extra["model.layers.2.eh_proj.weight"] = torch.ones(4, 8)
    save_file(tensors | extra, path, metadata={"format": "pt"})
    report = normdiag.inspect(str(copy_of_llama), measure="stream")
    assert len(report.subject.loading.unexpected) == len(extra)
    assert report.subject.loading.unbuilt_layers == ()


def test_names_outside_of_lists_are_none() -> None:
    model = nn.ModuleDict({"layers": nn.ModuleList([nn.Linear(2, 2)])})
    names = ["layers.1.weight", "layers.1.bias", "other.1.weight", "layers.0.scale", "layers.2.x"]
    assert find_unbuilt_layers(model, names) == ("layers.1",)
