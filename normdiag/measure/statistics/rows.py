"""Tensors as rows of tokens, without padding, and samples of the rows."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np
import numpy.typing as npt
import torch

Indices = npt.NDArray[np.int64]
CHUNK_ELEMENTS = 1 << 16
"""Temporaries in float64 stay in the cache: larger ones cost several times as much."""


def to_rows(x: torch.Tensor, axes: tuple[int, ...], groups: int = 1) -> torch.Tensor:
    """Reshape to (tokens, features): `axes` (negative) flattened last, all others first.

    With groups the first reduced axis (channels) is split, each group being a row of its own.
    """
    rank = x.dim()
    reduced = [a + rank for a in axes]
    leading = [a for a in range(rank) if a not in reduced]
    if reduced != list(range(rank - len(reduced), rank)):
        x = x.permute(*leading, *reduced)
    rows, features = prod(x.shape[: len(leading)]), prod(x.shape[len(leading) :])
    return x.reshape(rows * groups, features // groups)


def to_numpy(tensor: torch.Tensor) -> npt.NDArray[np.float64]:
    """Copy to the host, in float64."""
    array: npt.NDArray[np.float64] = tensor.detach().double().cpu().numpy()
    return array


def leading_sizes(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    """Sizes of the axes that are not among `axes` (negative), in order."""
    reduced = {axis + len(shape) for axis in axes}
    return tuple(size for axis, size in enumerate(shape) if axis not in reduced)


def chunk_starts(rows: int, features: int) -> range:
    """Starts of row chunks of about CHUNK_ELEMENTS."""
    return range(0, max(rows, 1), max(1, CHUNK_ELEMENTS // max(features, 1)))


def chunk_size(features: int) -> int:
    """Rows per chunk."""
    return max(1, CHUNK_ELEMENTS // max(features, 1))


@dataclass(slots=True)
class Tokens:
    """Which rows of a site are tokens, and which token each row is."""

    valid: torch.Tensor | None
    """Indices of rows that are not padding; None where all are tokens."""
    sequences: int
    positions: int
    rows_per_token: int
    """Rows per token (heads of a q/k norm, groups)."""
    order: str
    """"batch": rows run sequence by sequence; "time": position by position; "head": head by head
    of one sequence, position by position."""

    def token_places(self, rows: Indices) -> tuple[Indices, Indices]:
        """Sequence and position of each row."""
        if self.order == "head":
            return rows // (self.rows_per_token * self.positions), rows % self.positions
        token = rows // self.rows_per_token
        if self.order == "time":
            return token % self.sequences, token // self.sequences
        return np.divmod(token, max(self.positions, 1))

    def row_places(self, rows: Indices) -> Indices:
        """(rows, 3): sequence, position, and which of its token's rows each is."""
        sequence, position = self.token_places(rows)
        is_by_head = self.order == "head"
        part = (rows // max(self.positions, 1) if is_by_head else rows) % self.rows_per_token
        return np.stack([sequence, position, part], axis=-1)


class TokenLayout:
    """Finds the tokens of a site from its shape and the padding that applies to it."""

    def __init__(self, sequences: int, positions: int, token_mask: torch.Tensor | None) -> None:
        self.sequences = sequences
        self.positions = positions
        is_full = token_mask is None or bool(token_mask.all())
        self._mask = None if is_full else token_mask
        """True where a token is real, (sequences, positions); None where all are."""
        self._cache: dict[tuple[tuple[int, ...], int], Tokens] = {}

    def site_tokens(self, lead: tuple[int, ...], groups: int = 1) -> Tokens:
        """Find the tokens of a site; `lead`: sizes of the axes that are not reduced, in order."""
        key = (lead, groups)
        if key not in self._cache:
            self._cache[key] = self._match_shape(lead, groups)
        return self._cache[key]

    def _match_shape(self, lead: tuple[int, ...], groups: int) -> Tokens:
        b, s = self.sequences, self.positions
        rows = groups
        for size in lead:
            rows *= size
        per = rows // (b * s) if b * s else 1  # an expert may have been sent no token
        if lead[:1] == (b * s,) or (lead[:2] == (b, s)):
            return Tokens(self._valid_rows(self._mask, per), b, s, per, "batch")
        if lead[:2] == (s, b):
            mask = None if self._mask is None else self._mask.T
            return Tokens(self._valid_rows(mask, per), b, s, per, "time")
        if groups == 1 and len(lead) == 3 and (lead[0], lead[2]) == (b, s):
            mask = None
            if self._mask is not None:
                mask = self._mask[:, None, :].expand(b, lead[1], s)
            return Tokens(self._valid_rows(mask, 1), b, s, lead[1], "head")
        first = lead[0] if len(lead) > 1 else 1
        return Tokens(None, first, rows // max(first, 1), 1, "batch")

    @staticmethod
    def _valid_rows(mask: torch.Tensor | None, per: int) -> torch.Tensor | None:
        if mask is None:
            return None
        flat = mask.reshape(-1)
        if per > 1:
            flat = flat.repeat_interleave(per)
        return flat.nonzero().flatten()


class Sampler:
    """A seeded sample of rows, the same for every site with the same rows."""

    def __init__(self, size: int | None, seed: int) -> None:
        self.size = size
        self._seed = seed
        self._cache: dict[tuple[int, int | None], torch.Tensor] = {}

    def sample_add_rows(self, count: int, tokens: Tokens, device: torch.device) -> torch.Tensor:
        """Half of a sample of tokens: at a residual add three rows are stored per token."""
        picked = self.sample_rows(count, tokens.valid, device)
        return picked if self.size is None else picked[::2]

    def sample_rows(
        self, count: int, valid: torch.Tensor | None, device: torch.device
    ) -> torch.Tensor:
        """Sorted row indices, at most `size` of those that are not padding."""
        key = (count, None if valid is None else id(valid))
        if key not in self._cache:
            available = count if valid is None else int(valid.numel())
            if self.size is None or available <= self.size:
                pick = torch.arange(available)
            else:
                generator = torch.Generator().manual_seed(self._seed)
                pick = torch.randperm(available, generator=generator)[: self.size].sort().values
            pick = pick.to(device)
            self._cache[key] = pick if valid is None else valid[pick]
        return self._cache[key]


class FirstSequence(Sampler):
    """Samples the first `positions` tokens of the first sequence, at residual adds alone."""

    def __init__(self, positions: int) -> None:
        super().__init__(size=0, seed=0)
        self._positions = positions

    def sample_add_rows(self, count: int, tokens: Tokens, device: torch.device) -> torch.Tensor:
        rows = np.arange(count) if tokens.valid is None else tokens.valid.cpu().numpy()
        sequence, _ = tokens.token_places(rows)
        return torch.from_numpy(rows[sequence == 0][: self._positions]).to(device)
