"""Which inputs are token ids, and whether a stack reads more than it begins from."""

from __future__ import annotations

import torch
from torch import nn

from normdiag.structure.token_lookups import TokenLookup, find_token_lookups, has_cross_input
from tests.measure.forwards import accumulate_forward

ROWS, KINDS, PLACES, WIDTH = 11, 2, 9, 8


class Reader(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(ROWS, WIDTH)
        self.kinds = nn.Parameter(torch.randn(KINDS, WIDTH))
        self.places = nn.Embedding(PLACES, WIDTH)
        self.ways = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(2))

    def forward(
        self, ids: torch.Tensor, kinds: torch.Tensor, source: torch.Tensor | None = None
    ) -> torch.Tensor:
        places = (ids != 0).cumsum(-1)
        x = self.tokens(ids) + self.kinds[kinds.long()] + self.places(places)
        for way in self.ways:
            x = x + way(x if source is None else torch.softmax(x @ source.mT, -1) @ source)
        return x


IDS = torch.tensor([[3, 5, 7, 2]])
NUMBERS = torch.tensor([[0, 1, 1, 0]])


def test_an_input_is_looked_up_where_it_picks_rows_itself() -> None:
    """Places that are only computed from ids are no ids."""
    assembly = accumulate_forward(Reader(), ids=IDS, kinds=NUMBERS)
    assert find_token_lookups(assembly.first_pass.graph) == (
        TokenLookup("ids", ROWS),
        TokenLookup("kinds", KINDS),
    )


def test_features_that_branches_read_are_a_source() -> None:
    def has_source(*given: torch.Tensor) -> bool:
        first = accumulate_forward(Reader(), *given).first_pass
        return has_cross_input(first.graph, first.stacks)

    assert has_source(IDS, NUMBERS, torch.randn(1, 6, WIDTH))
    assert not has_source(IDS, NUMBERS)
    assert not has_cross_input(accumulate_forward(Reader(), IDS, NUMBERS).first_pass.graph, [])
