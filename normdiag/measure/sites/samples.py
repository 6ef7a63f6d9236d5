"""Sampled rows of one site, pass by pass, for replay, Jacobians and comparisons."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic, TypeVar

import torch

from normdiag.measure.passes.records import AddRecord, NormRecord
from normdiag.measure.statistics.earliest_pass import SequenceNumbers, pass_number
from normdiag.measure.statistics.rows import Indices


@dataclass(frozen=True, slots=True)
class NormSample:
    """Rows of one norm in one pass, on the host."""

    pass_number: int
    rows: torch.Tensor
    """Their indices among all rows of the input."""
    rows_per_token: int
    input_rows: torch.Tensor
    output_rows: torch.Tensor | None


@dataclass(frozen=True, slots=True)
class AddSample:
    """Rows of one residual add in one pass, each (rows, features), on the host."""

    pass_number: int
    rows: torch.Tensor
    places: Indices
    """(rows, 3): sequence in the pass, position, and which of its token's rows."""
    skip_rows: torch.Tensor
    branch_rows: torch.Tensor
    out_rows: torch.Tensor


Sample = TypeVar("Sample", NormSample, AddSample)


def sample_norm(record: NormRecord, sequences: SequenceNumbers) -> NormSample:
    """The sampled rows of `record`."""
    outputs = record.output_rows
    return NormSample(
        pass_number=pass_number(sequences),
        rows=_to_host(record.rows),
        rows_per_token=record.tokens.rows_per_token,
        input_rows=_to_host(record.input_rows),
        output_rows=None if outputs is None else _to_host(outputs),
    )


def sample_add(record: AddRecord, sequences: SequenceNumbers) -> AddSample:
    """The sampled rows of `record`."""
    rows = _to_host(record.rows)
    return AddSample(
        pass_number=pass_number(sequences),
        rows=rows,
        places=record.tokens.row_places(rows.numpy()),
        skip_rows=_to_host(record.skip_rows),
        branch_rows=_to_host(record.branch_rows),
        out_rows=_to_host(record.out_rows),
    )


@dataclass(slots=True)
class SampleAccumulator(Generic[Sample]):
    """Accumulator of one site's samples. Its memory is what the passes sample, as asked for."""

    samples: list[Sample] = field(default_factory=list)

    def update(self, sample: Sample) -> None:
        """Add one pass; one without sampled rows only where there is no other."""
        if not self.samples or sample.rows.numel():
            self.samples.append(sample)

    def merge(self, other: SampleAccumulator[Sample]) -> None:
        """Add the passes of `other`."""
        for sample in other.samples:
            self.update(sample)

    def compute(self) -> list[Sample]:
        """In the order of the passes; without rows only where no pass has any."""
        ordered = sorted(self.samples, key=lambda sample: sample.pass_number)
        return [sample for sample in ordered if sample.rows.numel()] or ordered[:1]


def _to_host(tensor: torch.Tensor) -> torch.Tensor:
    """On the host, in storage of its own: a view would be pickled with all that it shares."""
    host = tensor.detach().cpu()
    return host.clone() if host.untyped_storage().nbytes() > host.nbytes else host
