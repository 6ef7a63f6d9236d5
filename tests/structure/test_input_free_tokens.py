"""Which tokens hold nothing of the input, told where they are joined and not by their values."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from normdiag.structure.input_free_tokens import find_input_free_positions
from tests.measure.forwards import accumulate_forward, measure_sites

WIDTH, TOKENS = 8, 6


class Joined(nn.Module):
    """One norm on tokens of parameters and of the input, put together by `join`."""

    def __init__(self, join: Callable[[Joined, torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.join = join
        self.first, self.second = (nn.Parameter(torch.zeros(1, 1, WIDTH)) for _ in range(2))
        self.register = nn.Parameter(torch.zeros(1, 3, WIDTH))
        self.places = nn.Parameter(torch.zeros(1, TOKENS + 2, WIDTH))
        self.way = nn.Linear(WIDTH, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(self.join(self, x))

    def tokens(self, x: torch.Tensor) -> torch.Tensor:
        """Two of parameters, then those of the input."""
        own = (self.first.expand(len(x), -1, -1), self.second.expand(len(x), -1, -1))
        return torch.cat((*own, x), 1)


def _with_places(model: Joined, x: torch.Tensor) -> torch.Tensor:
    return torch.dropout(model.tokens(x) + model.places, 0.0, False).clone() * 2


def _with_registers(model: Joined, x: torch.Tensor) -> torch.Tensor:
    joined = _with_places(model, x)
    return torch.cat((joined[:, :1], model.register.expand(len(x), -1, -1), joined[:, 1:]), 1)


def _behind_the_input(model: Joined, x: torch.Tensor) -> torch.Tensor:
    return torch.cat((x, model.register.expand(len(x), -1, -1)), -2)


def _with_nothing(model: Joined, x: torch.Tensor) -> torch.Tensor:
    """An empty cache of no shape, which torch joins to anything."""
    return torch.cat((x.new_zeros(0), model.tokens(x)), 1)


def _added_often(model: Joined, x: torch.Tensor) -> torch.Tensor:
    """2 ** 30 ways lead back: one that walks each of them never returns."""
    joined = model.tokens(x)
    for _ in range(30):
        joined = joined + joined.clone()
    return joined


def _mixed(model: Joined, x: torch.Tensor) -> torch.Tensor:
    joined = model.tokens(x)
    return joined + torch.softmax(joined @ joined.mT, -1) @ joined


def _shared_by_all(model: Joined, x: torch.Tensor) -> torch.Tensor:
    return model.tokens(x) + x.mean(1, keepdim=True)


def _projected(model: Joined, x: torch.Tensor) -> torch.Tensor:
    return model.way(model.tokens(x))


def _along_features(model: Joined, x: torch.Tensor) -> torch.Tensor:
    return torch.cat(
        (x[..., :4], model.register.expand(len(x), -1, -1)[..., :4].repeat(1, 2, 1)), -1
    )


@pytest.mark.parametrize(
    ("join", "free"),
    [
        (_with_places, (0, 1)),
        (_with_registers, (0, 1, 2, 3, 4)),
        (_behind_the_input, (6, 7, 8)),
        (_with_nothing, (0, 1)),
        (_added_often, (0, 1)),
        (_mixed, ()),
        (_shared_by_all, ()),
        (_projected, ()),
        (_along_features, ()),
        (lambda model, x: x, ()),
        (lambda model, x: model.register.expand(len(x), -1, -1), ()),
    ],
)
def test_positions(
    join: Callable[[Joined, torch.Tensor], torch.Tensor], free: tuple[int, ...]
) -> None:
    first = accumulate_forward(Joined(join), torch.randn(2, TOKENS, WIDTH)).first_pass
    (norm,) = first.sites.norms
    assert find_input_free_positions(norm.source) == free


@pytest.mark.parametrize(("join", "constant", "own"), [(_with_registers, 10, 10), (_mixed, 0, 0)])
def test_constant_tokens_are_counted_apart(
    join: Callable[[Joined, torch.Tensor], torch.Tensor], constant: int, own: int
) -> None:
    """Five tokens of zeros in each of two sequences; behind an attention they are filled."""
    _, measured = measure_sites(Joined(join), torch.randn(2, TOKENS, WIDTH))
    (norm,) = measured.norms.values()
    assert (norm.constant, norm.constant_without_input) == (constant, own)


def test_a_constant_token_of_the_input_is_not_among_them() -> None:
    x = torch.randn(2, TOKENS, WIDTH)
    x[1, 3] = 0.0
    _, measured = measure_sites(Joined(_with_places), x)
    (norm,) = measured.norms.values()
    assert (norm.constant, norm.constant_without_input) == (5, 4)
