"""What every write of a stack is of its last value, and the stack's own pace and sinks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tests.oracle.numbers import Numbers
from tests.oracle.taps import Array
from tests.oracle.tokens import Tokens


def shares(start: Tokens, writes: Sequence[Tokens]) -> list[Numbers]:
    """Of the start and of every write in x_L = start + sum of writes, on the first sequence without
    its first token; means over tokens."""
    keep = (start.sequence == 0) & ~start.leads
    parts = [tokens.values[keep] for tokens in (start, *writes)]
    end = sum(parts)
    signed = [((part * end).sum(-1) / (end * end).sum(-1)).mean() for part in parts]
    energies = np.array([(part * part).sum(-1) for part in parts])
    energy = (energies / energies.sum(0)).mean(-1)
    tokens = int(keep.sum())
    return [
        {"signed": s, "energy": e, "tokens": tokens} for s, e in zip(signed, energy, strict=True)
    ]


def sink_ratio(y: Tokens) -> float:
    """Mean length of first tokens over that of all others."""
    norms = np.linalg.norm(y.values, axis=-1)
    return norms[y.leads].mean() / norms[~y.leads].mean()


def pace(ratios: Array) -> float | None:
    """Median over the later half of r_l sqrt(l)."""
    if len(ratios) <= 2:
        return None
    return float(np.median((ratios * np.arange(len(ratios)) ** 0.5)[len(ratios) // 2 :]))
