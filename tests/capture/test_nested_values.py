"""Models on nested tensors are refused with a reason; lengths kept in one are no matter."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import normdiag
from normdiag.errors import RunError, UsageError

SEQUENCES = torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(0))


class Packed(nn.Module):
    """Sequences of five and three tokens, the second one cut."""

    def __init__(self, norm: nn.Module, layout: torch.layout) -> None:
        super().__init__()
        self.norm, self.up, self.layout = norm, nn.Linear(8, 8), layout

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        packed = torch.nested.as_nested_tensor([x[0], x[1, :3]], layout=self.layout)
        for _ in range(2):
            packed = packed + self.up(self.norm(packed))
        return packed.to_padded_tensor(0.0)


@pytest.mark.parametrize("layout", [torch.jagged, torch.strided])
@pytest.mark.parametrize("norm", [nn.LayerNorm, nn.RMSNorm])
def test_a_model_that_computes_on_one_is_told_to_pad(norm: Any, layout: torch.layout) -> None:
    with pytest.raises(RunError, match=r"nested tensor \(torch\.nested\), first at") as raised:
        normdiag.inspect(Packed(norm(8), layout), inputs=SEQUENCES)
    assert raised.value.exit_code == 3
    assert "padded batch with a mask" in (raised.value.hint or "")


@pytest.mark.parametrize("layout", [torch.jagged, torch.strided])
def test_so_is_who_gives_one(layout: torch.layout) -> None:
    nested = torch.nested.nested_tensor([torch.ones(3, 8), torch.ones(5, 8)], layout=layout)
    for inputs in (nested, (nested,), {"input": nested}):
        with pytest.raises(UsageError, match="nested tensor") as raised:
            normdiag.inspect(nn.LayerNorm(8), inputs=inputs)
        assert "padded batch" in (raised.value.hint or "")


class Masked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up = nn.LayerNorm(8), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        lengths = torch.nested.as_nested_tensor([ids[0], ids[0, :3]], layout=torch.jagged)
        real = torch.arange(x.shape[1]) < lengths.offsets().diff()[:, None]
        for _ in range(2):
            x = x + self.up(self.norm(x))
        return x * real[..., None]


def test_whole_numbers_in_one_are_read_past() -> None:
    inputs = {"x": SEQUENCES, "ids": torch.arange(10).view(2, 5)}
    report = normdiag.inspect(Masked(), inputs=inputs, measure=("norms",))
    assert len(report.architecture.residual_adds) == 2
