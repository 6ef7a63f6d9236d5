"""Which layers hold the same parameters."""

from __future__ import annotations

from copy import deepcopy
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from transformers import AlbertConfig, AlbertModel

import normdiag
from normdiag.measure.depth.duplicates import find_duplicate_layers

Groups = dict[str, tuple[tuple[int, ...], ...]]


class Block(nn.Module):
    def __init__(self, width: int = 16, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.norm, self.fc = nn.LayerNorm(width), nn.Linear(width, width)

    def forward(self, x):
        return x + self.fc(self.norm(x))


class Model(nn.Module):
    def __init__(self, blocks: list[nn.Module]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(blocks)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def duplicates(blocks: list[nn.Module]) -> Groups:
    torch.manual_seed(0)
    model, x = Model(blocks).eval(), torch.randn(1, 4, 16)
    return normdiag.inspect(model, inputs=(x,), measure=("stream",)).measurements.duplicates


def test_copies_of_copies() -> None:
    a, b, c = Block(), Block(), Block()
    blocks = [a, b, deepcopy(a), c, deepcopy(b), deepcopy(a)]
    assert duplicates(blocks) == {"layers": ((0, 2, 5), (1, 4))}


@pytest.mark.parametrize("name", ["fc.weight", "fc.bias", "norm.weight"])
def test_one_value_in_one_of_them_makes_them_differ(name: str) -> None:
    a = Block()
    b = deepcopy(a)
    with torch.no_grad():
        b.get_parameter(name).view(-1)[5] += 1e-3
    assert duplicates([a, b, Block()]) == {"layers": ()}


def test_layers_that_agree_where_one_looks_first_are_compared_whole() -> None:
    a = Block()
    b, c = deepcopy(a), deepcopy(a)
    with torch.no_grad():
        c.fc.weight.view(-1)[1] += 1.0  # between the values that are sampled
    assert duplicates([a, b, c]) == {"layers": ((0, 1),)}


def test_tied_weights_are_no_copies() -> None:
    a, b, c = Block(), Block(), Block()
    b.fc, b.norm = a.fc, a.norm
    assert duplicates([a, b, c]) == {"layers": ()}


def test_one_module_that_runs_again_is_no_copy() -> None:
    config = AlbertConfig(
        hidden_size=32,
        embedding_size=32,
        num_hidden_layers=4,
        num_attention_heads=2,
        intermediate_size=48,
        vocab_size=64,
    )
    inputs = {"input_ids": torch.randint(64, (1, 8))}
    seen = normdiag.inspect(AlbertModel(config).eval(), inputs=inputs, measure=("stream",))
    assert seen.measurements.duplicates == {}


def test_weights_that_are_kept_elsewhere_are_not_compared() -> None:
    model = Model([Block(), Block()])
    for layer in model.layers:
        layer.fc.to("meta")
    frames = [SimpleNamespace(path=f"layers.{k}") for k in (0, 1)]
    stack = SimpleNamespace(layers=SimpleNamespace(frames=frames))
    assert find_duplicate_layers(model, {"layers": stack}) == {}


def test_constants_are_alike_and_no_copies() -> None:
    blocks = [Block(), Block(), Block()]
    for block in blocks:
        nn.init.constant_(block.fc.weight, 0.01)
    assert duplicates(blocks) == {}


def test_what_torch_copies_is_found() -> None:
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    model = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False).eval()
    seen = normdiag.inspect(model, inputs=(torch.randn(1, 4, 16),), measure=("stream",))
    assert seen.measurements.duplicates == {"layers": ((0, 1, 2),)}
