"""A token is followed where the stream puts its tokens in another order between two adds."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import normdiag
from normdiag.report.report import Report

WIDTH, SIDE = 8, 4
Reorder = Callable[[Tensor], Tensor]


def to_windows(x: Tensor) -> Tensor:
    """(1, 16, 8) row by row -> (4, 4, 8) window by window."""
    windows = x.view(1, 2, 2, 2, 2, WIDTH).permute(0, 1, 3, 2, 4, 5)
    return windows.reshape(4, 4, WIDTH)


def to_grid(x: Tensor) -> Tensor:
    return to_windows(x).transpose(0, 1)


def to_channels_first(x: Tensor) -> Tensor:
    return x.view(1, SIDE, SIDE, WIDTH).permute(0, 3, 2, 1)


def to_rolled(x: Tensor) -> Tensor:
    return torch.roll(x, 3, 1)


class MLP(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 16), nn.Linear(16, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(self.up(self.norm(x)).relu())


class Net(nn.Module):
    """Every second add is made on the tokens in another order; no branch reads two tokens."""

    def __init__(self, there: Reorder, back: Reorder) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            self.start = nn.Linear(WIDTH, WIDTH)
            self.layers = nn.ModuleList(nn.ModuleList([MLP(), MLP()]) for _ in range(2))
            self.norm = nn.LayerNorm(WIDTH)
        self.there, self.back = there, back

    def forward(self, x: Tensor) -> Tensor:
        x = self.start(x)
        for first, second in self.layers:  # type: ignore[misc]
            x = x + first(x)
            x = self.there(x)
            x = x + self._read(second, x)
            x = self.back(x)
        return self.norm(x)

    def _read(self, branch: nn.Module, x: Tensor) -> Tensor:
        if x.dim() == 4:
            return branch(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        return branch(x)


def identity(x: Tensor) -> Tensor:
    return x


def from_windows(x: Tensor) -> Tensor:
    return x.view(1, 2, 2, 2, 2, WIDTH).permute(0, 1, 3, 2, 4, 5).reshape(1, 16, WIDTH)


def from_grid(x: Tensor) -> Tensor:
    return from_windows(x.transpose(0, 1))


def from_channels_first(x: Tensor) -> Tensor:
    return x.permute(0, 3, 2, 1).reshape(1, 16, WIDTH)


def from_rolled(x: Tensor) -> Tensor:
    return torch.roll(x, -3, 1)


ORDERS: dict[str, tuple[Reorder, Reorder]] = {
    "windows": (to_windows, from_windows),
    "grid": (to_grid, from_grid),
    "channels first": (to_channels_first, from_channels_first),
    "rolled": (to_rolled, from_rolled),
}


def inspect_blocks(there: Reorder, back: Reorder) -> Report:
    x = torch.randn(1, 16, WIDTH, generator=torch.Generator().manual_seed(1))
    return normdiag.inspect(Net(there, back).eval(), inputs=x, measure=("jacobians",))


def numbers(report: Report) -> list[float]:
    blocks = report.measurements.blocks
    return [n for b in blocks.values() for t in b.tokens for n in (t.sigma_max, t.sigma_min or 0.0)]


@pytest.mark.parametrize("order", ORDERS)
def test_an_order_of_the_tokens_changes_no_number(order: str) -> None:
    plain, moved = inspect_blocks(identity, identity), inspect_blocks(*ORDERS[order])
    assert len(plain.measurements.blocks) == len(moved.measurements.blocks) == 4 + 2 + 1
    assert numbers(moved) == pytest.approx(numbers(plain), rel=1e-4)


def test_an_order_that_is_data_is_said() -> None:
    order = torch.randperm(16, generator=torch.Generator().manual_seed(2))
    report = inspect_blocks(lambda x: x[:, order], lambda x: x[:, order.argsort()])
    skipped = [s for s in report.coverage.skipped if s.what.startswith("Jacobians")]
    assert [s.why for s in skipped] == ["tokens change places or number there"]
    assert not any(f.code == "ND503" for f in report.findings)
