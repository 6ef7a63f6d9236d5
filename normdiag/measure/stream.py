"""What the residual stream does: from the passes' per-token statistics to one AddMeasurement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from normdiag.evidence.stream import AddMeasurement, Position
from normdiag.measure.add_statistics import AddRows
from normdiag.measure.observer import AddRecord
from normdiag.measure.summaries import Numbers, typical

Rows = tuple[int, ...]
"""Which sequences of the probe one pass ran, in the order of its batch."""


@dataclass(frozen=True, slots=True)
class TokenNumbers:
    """The per-token numbers of one add over all passes, padding left out."""

    skip: Numbers
    branch: Numbers
    out: Numbers
    cosine: Numbers
    angle: Numbers
    max_abs: Numbers
    max_channel: Numbers
    kurtosis: Numbers
    median_abs: Numbers
    sequence: Numbers
    position: Numbers

    @property
    def is_first(self) -> npt.NDArray[np.bool_]:
        """The first token of each sequence that is not padding."""
        first = np.full(int(self.sequence.max(initial=-1)) + 1, np.inf)
        np.minimum.at(first, self.sequence.astype(int), self.position)
        return np.asarray(self.position == first[self.sequence.astype(int)])

    @property
    def update_ratio(self) -> Numbers:
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(self.branch / self.skip)


def token_numbers(records: Sequence[AddRecord], sequences: Sequence[Rows]) -> TokenNumbers:
    """The numbers of all passes; `sequences[i]` are those of pass i."""
    parts = [
        _numbers(r, r.statistics, own)
        for r, own in zip(records, sequences, strict=True)
        if r.statistics is not None
    ]
    return TokenNumbers(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _numbers(record: AddRecord, rows: AddRows, own: Rows) -> tuple[Numbers, ...]:
    tokens = record.tokens
    n = rows.out_square.numel()
    valid = np.arange(n) if tokens.valid is None else tokens.valid.cpu().numpy()
    xx, uu, yy = (_host(t)[valid] for t in (rows.skip_square, rows.branch_square, rows.out_square))
    xu, xy = (_host(t)[valid] for t in (rows.skip_branch, rows.skip_out))
    skip, branch, out = np.sqrt(xx), np.sqrt(uu), np.sqrt(yy)
    with np.errstate(invalid="ignore", divide="ignore"):
        cosine = np.where((skip > 0) & (branch > 0), xu / (skip * branch), 0.0)
        turn = np.arctan2(_host(rows.across)[valid], xy / skip)
        angle = np.degrees(np.where((skip > 0) & (out > 0), turn, 0.0))
    where = np.array([tokens.token_of(int(r)) for r in valid]).reshape(-1, 2)
    return (
        skip, branch, out, cosine, angle,
        _host(rows.max_abs)[valid], _host(rows.max_channel)[valid], _host(rows.kurtosis)[valid],
        _host(rows.median_abs)[valid],
        numbered(where[:, 0], own), where[:, 1],
    )  # fmt: skip


def numbered(local: Numbers, own: Rows) -> Numbers:
    """The probe's sequence numbers of a pass's `local` ones; its tokens may be one flat row."""
    if local.size and int(local.max()) < len(own):
        numbers: Numbers = np.asarray(own, dtype=np.float64)[local.astype(int)]
        return numbers
    return local + (own[0] if own else 0)


def measure_add(
    records: Sequence[AddRecord], sequences: Sequence[Rows]
) -> tuple[AddMeasurement, TokenNumbers] | None:
    """All passes of one add as one measurement; None where no statistics were asked for."""
    rows = [r.statistics for r in records if r.statistics is not None]
    if not rows:
        return None
    numbers = token_numbers(records, sequences)
    if numbers.out.size == 0:
        return None
    at = int(np.argmax(numbers.max_abs))
    pairs = sum(r.pairs for r in rows)
    cosines = sum(float(r.pair_cosine) for r in rows)
    measurement = AddMeasurement(
        tokens=numbers.out.size,
        skip_norm=typical(numbers.skip),
        branch_norm=typical(numbers.branch),
        out_norm=typical(numbers.out),
        update_ratio=typical(numbers.update_ratio),
        cosine=typical(numbers.cosine),
        angle_deg=typical(numbers.angle),
        max_abs=float(numbers.max_abs[at]),
        max_channel=int(numbers.max_channel[at]),
        max_token=Position(sequence=int(numbers.sequence[at]), position=int(numbers.position[at])),
        median_abs=float(np.median(numbers.median_abs)),
        token_cosine=cosines / pairs if pairs else None,
        kurtosis=typical(numbers.kurtosis),
    )
    return measurement, numbers


def _host(tensor: torch.Tensor) -> Numbers:
    return tensor.detach().double().cpu().numpy()
