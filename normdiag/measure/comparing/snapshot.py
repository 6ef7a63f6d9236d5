"""What is kept of one model to compare another with: sampled values and learned vectors.

A few rows for each add, in the model's precision and on the host, so that the model itself can go
before the next one comes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from normdiag.inputs.batch import Batch
from normdiag.measure.passes.model_outputs import OutputTensors
from normdiag.measure.sites.samples import AddSample, NormSample
from normdiag.measure.sites.site_statistics import SiteStatistics

Place = tuple[int, int, int, int]
"""Pass, sequence in it, position, and which of its token's rows."""


@dataclass(slots=True)
class SnapshotAdd:
    """The sampled rows of one add, each (rows, features)."""

    places: list[Place]
    skip: torch.Tensor
    branch: torch.Tensor
    out: torch.Tensor


@dataclass(slots=True)
class SnapshotNorm:
    """The sampled rows of one norm, by pass and row: input and output, each (features,)."""

    rows: dict[tuple[int, int], int]
    input_rows: torch.Tensor
    output_rows: torch.Tensor


@dataclass(slots=True)
class Snapshot:
    """Sampled values and learned vectors of one model."""

    batches: tuple[Batch, ...] = ()
    """What it was run on."""
    outputs: tuple[OutputTensors, ...] = ()
    """Of each batch."""
    adds: dict[str, SnapshotAdd] = field(default_factory=dict)
    norms: dict[str, SnapshotNorm] = field(default_factory=dict)
    gains: dict[str, torch.Tensor] = field(default_factory=dict)
    """Per norm, in float64: (features,)."""
    biases: dict[str, torch.Tensor] = field(default_factory=dict)

    def store(self, statistics: SiteStatistics, batches: tuple[Batch, ...]) -> None:
        """Keep what `statistics` has after `batches` have run."""
        self.batches = batches
        self.adds = {
            name: _join_samples(samples) for name, samples in statistics.add_samples.items()
        }
        for name, norm_samples in statistics.norm_samples.items():
            joined = _join_norm_samples(norm_samples)
            if joined is not None:
                self.norms[name] = joined
        for norm, name in statistics.sites.norms.items():
            gain, bias = (
                statistics.learned_values.gain_vector(norm),
                statistics.learned_values.bias_vector(norm),
            )
            if gain is not None:
                self.gains[name] = gain
            if bias is not None:
                self.biases[name] = bias


def _join_norm_samples(samples: Sequence[NormSample]) -> SnapshotNorm | None:
    pairs = [(s, s.output_rows) for s in samples if s.output_rows is not None]
    if not pairs or any(s.input_rows.shape != out.shape for s, out in pairs):
        return None
    rows = [(sample.pass_number, row) for sample, _ in pairs for row in sample.rows.tolist()]
    return SnapshotNorm(
        rows={row: i for i, row in enumerate(rows)},
        input_rows=torch.cat([sample.input_rows for sample, _ in pairs]),
        output_rows=torch.cat([out for _, out in pairs]),
    )


def _join_samples(samples: Sequence[AddSample]) -> SnapshotAdd:
    return SnapshotAdd(
        places=[
            (sample.pass_number, sequence, position, part)
            for sample in samples
            for sequence, position, part in sample.places.tolist()
        ],
        skip=torch.cat([sample.skip_rows for sample in samples]),
        branch=torch.cat([sample.branch_rows for sample in samples]),
        out=torch.cat([sample.out_rows for sample in samples]),
    )
