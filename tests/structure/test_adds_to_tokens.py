"""Adds to some tokens alone: a class token or registers that a branch leaves as they are."""

from __future__ import annotations

from collections import Counter

import pytest
import torch

import normdiag
from normdiag.structure.overwritten_parts import find_continued_parts
from tests.capture.recording import find_nodes, record_graph
from tests.structure.small_decoder import (
    WIDTH,
    Block,
    Decoder,
    Tensor,
    Wiring,
    codes_of,
    inspect_blocks,
)

PLACES = torch.tensor([1, 3, 4])
CHOSEN = torch.arange(7) > 1


def in_place(b: Block, x: Tensor) -> Tensor:
    x[:, 1:] += b.attn(b.n1(x))[:, 1:]
    x += b.mlp(b.n2(x))
    return x


def first_tokens(b: Block, x: Tensor) -> Tensor:
    x = x.clone()
    x[:, :3].add_(b.attn(b.n1(x))[:, :3])
    return x + b.mlp(b.n2(x))


def one_token(b: Block, x: Tensor) -> Tensor:
    x = x.clone()
    x[:, 0] += b.attn(b.n1(x))[:, 0]
    return x + b.mlp(b.n2(x))


def in_both_branches(b: Block, x: Tensor) -> Tensor:
    x = x.clone()
    x[:, 1:] += b.attn(b.n1(x[:, 1:]))
    x[:, 1:] += b.mlp(b.n2(x[:, 1:]))
    return x


def assigned(b: Block, x: Tensor) -> Tensor:
    x = x.clone()
    x[:, 1:] = x[:, 1:] + b.attn(b.n1(x))[:, 1:]
    return x + b.mlp(b.n2(x))


def joined(b: Block, x: Tensor) -> Tensor:
    x = torch.cat([x[:, :1], x[:, 1:] + b.attn(b.n1(x))[:, 1:]], 1)
    return torch.cat([x[:, :1], x[:, 1:] + b.mlp(b.n2(x))[:, 1:]], 1)


def scattered(b: Block, x: Tensor) -> Tensor:
    x = x.slice_scatter(x[:, 1:] + b.attn(b.n1(x))[:, 1:], 1, 1)
    return x + b.mlp(b.n2(x))


def at_places(b: Block, x: Tensor) -> Tensor:
    x = x.index_copy(1, PLACES, x[:, PLACES] + b.attn(b.n1(x))[:, PLACES])
    return x + b.mlp(b.n2(x))


def under_a_mask(b: Block, x: Tensor) -> Tensor:
    x = x.clone()
    x[:, CHOSEN] += b.attn(b.n1(x))[:, CHOSEN]
    return x + b.mlp(b.n2(x))


def where_chosen(b: Block, x: Tensor) -> Tensor:
    x = torch.where(CHOSEN[:, None], x + b.attn(b.n1(x)), x)
    return x + b.mlp(b.n2(x))


SPELLINGS: list[Wiring] = [
    in_place, first_tokens, one_token, in_both_branches, assigned, joined, scattered, at_places,
    under_a_mask, where_chosen,
]  # fmt: skip


@pytest.mark.parametrize("wiring", SPELLINGS, ids=lambda wiring: wiring.__name__)
def test_they_are_adds_of_the_stream_and_close(wiring: Wiring) -> None:
    report = inspect_blocks(wiring, wiring, wiring)
    (stack,) = report.architecture.stacks
    assert (stack.placement, stack.layers, stack.residual_adds_per_layer) == ("pre", 3, 2)
    assert Counter(a.branches for a in report.architecture.residual_adds) == {1: 6}
    assert report.coverage.unexplained_adds == () and codes_of(report) == set()
    (closure,) = report.measurements.closure.values()
    assert closure.max_rel_error < 1e-5


def post_norm(b: Block, x: Tensor) -> Tensor:
    x = x.clone()
    x[:, 1:] = b.n1(x[:, 1:] + b.attn(x)[:, 1:])
    return b.n2(x + b.mlp(x))


def test_so_is_a_norm_of_some_tokens() -> None:
    report = inspect_blocks(post_norm, post_norm, post_norm)
    (stack,) = report.architecture.stacks
    assert (stack.placement, stack.layers, stack.residual_adds_per_layer) == ("post", 3, 2)
    assert codes_of(report) == set()


def some_features(b: Block, x: Tensor) -> Tensor:
    x = x.clone()
    x[..., : WIDTH // 2] += b.attn(b.n1(x))[..., : WIDTH // 2]
    return x + b.mlp(b.n2(x))


def two_parts(b: Block, x: Tensor) -> Tensor:
    x = x.clone()
    update = b.attn(b.n1(x))
    x[:, :3] += update[:, :3]
    x[:, 3:] += update[:, 3:]
    return x + b.mlp(b.n2(x))


@pytest.mark.parametrize("wiring", [some_features, two_parts])
def test_what_is_not_followed_gives_no_warning(wiring: Wiring) -> None:
    assert codes_of(inspect_blocks(wiring, wiring, wiring)) == set()


@pytest.mark.parametrize(("rows", "goes_on"), [(2, True), (1, False)])
def test_one_term_for_several_lanes_is_no_add_to_tokens(rows: int, goes_on: bool) -> None:
    """AltUp adds one prediction to all lanes of the stream but the first."""

    def add_to_the_others(x: Tensor) -> Tensor:
        lanes = x * 2
        lanes[1:] += x.exp()[:rows]
        return lanes

    write = find_nodes(record_graph(add_to_the_others, torch.randn(3, 5, 4)), "write")[0]
    assert (find_continued_parts(write) is not None) == goes_on


def second_branch(b: Block, x: Tensor) -> Tensor:
    y = x + b.attn(b.n1(x))
    y[:, 2:] += b.mlp(b.n2(x))[:, 2:]
    return y


def test_a_second_branch_may_go_to_some_tokens() -> None:
    report = inspect_blocks(second_branch, second_branch, second_branch)
    assert len(report.architecture.residual_adds) == 6 and codes_of(report) == set()


def hidden(b: Block, x: Tensor) -> Tensor:
    x = first_tokens(b, x)
    x.numpy()[..., 3] += 1
    return x


def test_what_no_add_wrote_still_opens_the_sum() -> None:
    report = inspect_blocks(first_tokens, hidden, first_tokens, first_tokens)
    assert codes_of(report) == {"ND002"}


def without_the_first(b: Block, x: Tensor) -> Tensor:
    x = torch.cat([x[:, :1], x[:, 1:] + b.attn(b.n1(x[:, 1:]))], 1)
    return x + b.mlp(b.n2(x))


def test_a_branch_that_cuts_its_tokens_itself_leaves_the_skip_in_the_jacobian() -> None:
    """Its part is another tensor than that of the skip, and the same memory."""
    torch.manual_seed(0)
    model = Decoder(*[without_the_first] * 3).eval()
    report = normdiag.inspect(model, inputs=torch.randint(0, 11, (2, 7)), measure=("jacobians",))
    layers = [b for b in report.measurements.blocks.values() if b.span == "layer"]
    assert len(layers) == 3
    for block in layers:
        assert block.sigma_max is not None and block.sigma_max > 0.5
        assert block.kappa is not None and block.kappa < 100
