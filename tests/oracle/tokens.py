"""The tokens that are not padding, with the sequence and the position each stands at."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tests.oracle.taps import Array, Seen

Read = Callable[[Seen], Array]


@dataclass(frozen=True)
class Tokens:
    """`values` (tokens, features); sequences are counted on over all batches."""

    values: Array
    sequence: Array
    position: Array

    @property
    def leads(self) -> Array:
        """True for the first token of each sequence that is not padding."""
        return np.append(True, self.sequence[1:] != self.sequence[:-1])

    def sequences(self) -> list[Array]:
        """`values` split by sequence."""
        return [self.values[self.sequence == s] for s in np.unique(self.sequence)]


def gather(observed: Sequence[Seen], read: Read, mask: str) -> Tokens:
    """Read one (batch, position, feature) array from each forward; drop what `mask` masks."""
    values, places, before = [], [], 0
    for seen in observed:
        array = read(seen)
        keep = _is_token(seen, array, mask)
        values.append(array[keep])
        places.append(np.argwhere(keep) + np.array([before, 0]))
        before += len(array)
    where = np.concatenate(places)
    return Tokens(np.concatenate(values), where[:, 0], where[:, 1])


def gather_padding(observed: Sequence[Seen], read: Read, mask: str) -> Array:
    """What `gather` drops: (tokens, features)."""
    arrays = [(seen, read(seen)) for seen in observed]
    return np.concatenate([array[~_is_token(seen, array, mask)] for seen, array in arrays])


def _is_token(seen: Seen, array: Array, mask: str) -> Array:
    return seen.mask.get(mask, np.ones(array.shape[:2])).astype(bool)
