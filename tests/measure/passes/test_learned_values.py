"""Scales on the skip and on the branch: their kind and the value that acts."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn

from normdiag.evidence.architecture import ResidualAdd
from tests.measure.forwards import accumulate_forward

Combine = Callable[["Block", torch.Tensor, torch.Tensor], torch.Tensor]


class Block(nn.Module):
    def __init__(self, combine: Combine, width: int = 8) -> None:
        super().__init__()
        self.ln, self.fc = nn.LayerNorm(width), nn.Linear(width, width)
        self.vector = nn.Parameter(torch.linspace(-1, 2, width))
        self.scalar = nn.Parameter(torch.tensor(0.3))
        self.register_buffer("fixed", torch.tensor(0.25))
        self.combine = combine

    def forward(self, x):
        return self.combine(self, x, self.fc(self.ln(x)))


class Model(nn.Module):
    def __init__(self, combine: Combine) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(combine) for _ in range(3))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


def first_add(combine: Combine) -> ResidualAdd:
    torch.manual_seed(0)
    return accumulate_forward(
        Model(combine), torch.randn(2, 5, 8)
    ).sites.architecture.residual_adds[0]


@pytest.mark.parametrize(
    ("combine", "skip", "branch"),
    [
        (lambda m, x, u: x + u, ("none", None), ("none", None)),
        (lambda m, x, u: x + 0.22 * u, ("none", None), ("constant", 0.22)),
        (lambda m, x, u: 3.56 * x + u, ("constant", 3.56), ("none", None)),
        (lambda m, x, u: x + u / 4, ("none", None), ("constant", 0.25)),
        (lambda m, x, u: x + m.scalar * u, ("none", None), ("learned", 0.3)),
        (lambda m, x, u: x + 2 * (m.scalar * u), ("none", None), ("learned", 0.6)),
        (lambda m, x, u: x + m.scalar.tanh() * u, ("none", None), ("learned", np.tanh(0.3))),
        (lambda m, x, u: x + m.fixed * u, ("none", None), ("constant", 0.25)),
        (lambda m, x, u: m.scalar * x + 0.5 * u, ("learned", 0.3), ("constant", 0.5)),
    ],
)  # fmt: skip
def test_one_number(
    combine: Combine, skip: tuple[str, float | None], branch: tuple[str, float | None]
) -> None:
    add = first_add(combine)
    for scale, (kind, value) in ((add.skip_scale, skip), (add.branch_scale, branch)):
        assert scale.kind == kind
        assert scale.value == (None if value is None else pytest.approx(value, rel=1e-6))


def test_a_number_per_channel() -> None:
    scale = first_add(lambda m, x, u: x + m.vector * u).branch_scale
    exact = np.linspace(-1, 2, 8)
    assert (scale.kind, scale.value) == ("learned", None)
    np.testing.assert_allclose(scale.rms, np.sqrt(np.square(exact).mean()), rtol=1e-6)
    np.testing.assert_allclose([scale.min, scale.max], [-1, 2], rtol=1e-6)
