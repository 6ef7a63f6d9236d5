"""What outlives a forward: numbers and sampled rows, not activations."""

from __future__ import annotations

import gc
import weakref

import torch
from torch import nn

from tests.measure.forwards import accumulate_forward


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.ln, self.fc = nn.LayerNorm(width), nn.Linear(width, width)

    def forward(self, x):
        return x + self.fc(self.ln(x))


class Model(nn.Module):
    def __init__(self, layers: int = 8, width: int = 16) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(width) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)
        self.kept: list[weakref.ref] = []

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
            self.kept.append(weakref.ref(x.untyped_storage()))
        return self.ln_f(x)


def test_no_activation_but_the_last_is_kept() -> None:
    model = Model()
    assembly = accumulate_forward(model, torch.randn(2, 50, 16), tokens=4)
    gc.collect()
    alive = [i for i, ref in enumerate(model.kept) if ref() is not None]
    assert len(assembly.add_samples) == 8
    assert set(alive) <= {6, 7}  # the operands and the result of the last add


def test_nor_while_the_next_layer_runs() -> None:
    class Watching(Model):
        def forward(self, x):
            alive = []
            for block in self.blocks:
                x = block(x)
                self.kept.append(weakref.ref(x.untyped_storage()))
                gc.collect()
                alive.append(sum(ref() is not None for ref in self.kept))
            self.alive = alive
            return self.ln_f(x)

    model = Watching()
    accumulate_forward(model, torch.randn(2, 50, 16), tokens=4)
    assert max(model.alive) <= 3


def test_only_as_many_rows_as_were_asked_for() -> None:
    assembly = accumulate_forward(Model(), torch.randn(2, 50, 16), tokens=4)
    for records in assembly.norm_samples.values():
        for record in records:
            assert record.input_rows.shape == (4, 16)
            assert record.output_rows is not None
            assert record.output_rows.shape == (4, 16)


def test_all_rows_where_all_are() -> None:
    assembly = accumulate_forward(Model(layers=2), torch.randn(2, 50, 16))
    for records in assembly.norm_samples.values():
        assert [r.input_rows.shape[0] for r in records] == [100]
