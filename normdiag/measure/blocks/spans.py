"""The Jacobian of a span of the stream at one token, whole or as products with vectors."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import torch
from torch import Tensor

from normdiag.measure.blocks.points import StreamPoint
from normdiag.measure.passes.gradient_edges import GradientEdges
from normdiag.numerics.operators import LinearOperator
from normdiag.structure.residual_adds import DetectedAdd

_CHUNK_ELEMENTS = 1 << 19
"""Of one batch of gradients: larger ones fall out of the cache."""
_FEWEST, _MOST = 8, 128


@dataclass(frozen=True, slots=True)
class StreamSpan:
    """From one value of the stream to a later one, at one token of both: J = dy/dx, square."""

    start: StreamPoint
    end: StreamPoint

    @property
    def width(self) -> int:
        return self.start.width

    @property
    def dtype(self) -> torch.dtype:
        """The less precise one of the two ends."""
        return max(self.start.dtype, self.end.dtype, key=lambda d: torch.finfo(d).eps)

    def pull_back(self, vectors: Tensor) -> Tensor:
        """w'J of every row w of `vectors`, in float64. Shape (n, width)."""
        return self.start.select_token(
            self._batched_gradients(self.end.place_at_token(vectors))
        ).double()

    def test_isolation(self) -> tuple[bool, bool]:
        """Whether the token at the start reaches other tokens at the end, and they reach it there.

        Both are read off random vectors: what is exactly zero for them is so for all.
        """
        ends, generator = self.end, torch.Generator().manual_seed(0)
        weights = torch.randn(2, *ends.shape, generator=generator).to(ends.device, ends.dtype)
        weights[0] -= ends.place_at_token(ends.select_token(weights[:1]))[0]  # the others alone
        weights[1] = ends.place_at_token(ends.select_token(weights[1:]))[0]  # the token alone
        both = self._batched_gradients(weights)
        to_others, to_token = both[:1], both[1:]
        own = self.start.select_token(to_token)
        leaves = bool(self.start.select_token(to_others).any())
        returns = int(torch.count_nonzero(to_token)) > int(torch.count_nonzero(own))
        return leaves, returns

    def reads_later_rows(self) -> bool:
        """Whether a row after the token's reaches it; rows lie in the order of positions."""
        vector = torch.randn(1, self.width, generator=torch.Generator().manual_seed(0))
        pulled = self._batched_gradients(self.end.place_at_token(vector.to(self.end.device)))[0]
        return bool(self.start.flatten_rows(pulled)[self.start.row + 1 :].any())

    def is_closed_before(self) -> bool:
        """Whether no row up to the token's reads one behind it; rows lie as positions do."""
        weights = torch.zeros(self.end.row_count, self.width)
        seen = weights[: self.end.row + 1]
        seen.normal_(generator=torch.Generator().manual_seed(0))
        placed = self.end.arrange_rows(weights.to(self.end.device, self.end.dtype))
        pulled = self._batched_gradients(placed[None])[0]
        return not bool(self.start.flatten_rows(pulled)[self.end.row + 1 :].any())

    def dense_jacobian(self) -> Tensor:
        """J itself, in float64: as many vector-Jacobian products as the stream has features."""
        size = _CHUNK_ELEMENTS // max(1, self.width * self.end.row_count)
        basis = torch.eye(self.width, device=self.end.device)
        chunks = torch.split(basis, min(max(size, _FEWEST), _MOST))
        return torch.cat([self.pull_back(chunk) for chunk in chunks])

    def linear_operator(self) -> LinearOperator:
        """J as products: J'w by one backward; Jv as the derivative of the linear map w -> J'w."""
        w = self.end.place_at_token(torch.zeros(1, self.width))[0].requires_grad_(True)
        pulled = torch.autograd.grad(
            self.end.edge, self.start.edge, w, create_graph=True, allow_unused=True
        )[0]

        def matvec(v: Tensor) -> Tensor:
            pushed = torch.autograd.grad(
                pulled, w, self.start.place_at_token(v[None])[0], retain_graph=True
            )
            return self.end.select_token(pushed[0][None])[0].double()

        def rmatvec(v: Tensor) -> Tensor:
            return self.pull_back(v[None])[0]

        size, device = self.width, self.end.device
        return LinearOperator(size, size, matvec, rmatvec, torch.float64, device)

    def _batched_gradients(self, batch: Tensor) -> Tensor:
        ends = (self.end.edge, self.start.edge)
        if len(batch) == 1:
            return torch.autograd.grad(*ends, batch[0], retain_graph=True)[0][None]
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of operations that torch batches one by one
                together = torch.autograd.grad(
                    *ends, batch, retain_graph=True, is_grads_batched=True
                )
            return together[0]
        except (RuntimeError, NotImplementedError):  # an operation that torch cannot batch
            singly = [torch.autograd.grad(*ends, one, retain_graph=True)[0] for one in batch]
            return torch.stack(singly)


def is_followed(edges: GradientEdges, add: DetectedAdd) -> bool:
    """Whether a derivative comes back through every branch of `add` to what the branch reads.

    Where a kernel has none, or autograd is off inside, the skip path alone would be differentiated.
    """
    root = edges.find_edge(add.root)
    for branch in add.branches:
        edge = edges.find_edge(branch)
        if root is None or edge is None:
            return False
        known = edge.node._input_metadata[edge.output_nr]
        ones = torch.ones(known.shape, dtype=known.dtype, device=known.device)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a missing derivative shows in the result
            gradients: tuple[Tensor | None, ...] = torch.autograd.grad(
                edge, root, ones, retain_graph=True, allow_unused=True
            )
        if gradients[0] is None:
            return False
    return True
