"""What is kept of one model to compare another with: sampled values and learned vectors.

A few rows for each add, in the model's precision and on the host, so that the model itself can go
before the next one comes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from normdiag.inputs.batch import Batch
from normdiag.measure.passes.observer import AddRecord
from normdiag.measure.sites.assembly import Assembly
from normdiag.measure.statistics.rows import Tokens

Place = tuple[int, int, int, int]
"""Pass, sequence in it, position, and which of its token's rows."""


@dataclass(slots=True)
class Kept:
    """The sampled rows of one add, each (rows, features)."""

    places: list[Place]
    skip: torch.Tensor
    branch: torch.Tensor
    out: torch.Tensor


@dataclass(slots=True)
class Snapshot:
    """One model, seen."""

    batches: tuple[Batch, ...] = ()
    """What it was run on."""
    adds: dict[str, Kept] = field(default_factory=dict)
    gains: dict[str, torch.Tensor] = field(default_factory=dict)
    """Per norm, in float64: (features,)."""
    biases: dict[str, torch.Tensor] = field(default_factory=dict)

    def take(self, assembly: Assembly, batches: tuple[Batch, ...]) -> None:
        """Keep what `assembly` has after `batches` have run."""
        self.batches = batches
        self.adds = {name: _kept(records) for name, records in assembly.adds.items()}
        for norm, name in assembly.sites.norms.items():
            gain, bias = assembly.learned.gain_vector(norm), assembly.learned.bias_vector(norm)
            if gain is not None:
                self.gains[name] = gain
            if bias is not None:
                self.biases[name] = bias


def _kept(records: Sequence[AddRecord]) -> Kept:
    places = [
        (number, *place)
        for number, record in enumerate(records)
        for place in _places(record.tokens, record.rows)
    ]
    skip, branch, out = (
        torch.cat([rows.detach().cpu() for rows in parts])
        for parts in zip(*((r.skip_rows, r.branch_rows, r.out_rows) for r in records), strict=True)
    )
    return Kept(places, skip, branch, out)


def _places(tokens: Tokens, picked: torch.Tensor) -> list[tuple[int, int, int]]:
    rows = picked.cpu().numpy()
    sequence, position = tokens.places(rows)
    if tokens.order == "head":
        part = rows // max(tokens.positions, 1) % tokens.per_token
    else:
        part = rows % tokens.per_token
    return list(zip(sequence.tolist(), position.tolist(), part.tolist(), strict=True))
