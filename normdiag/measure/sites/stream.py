"""What the residual stream does: from the passes' per-token statistics to one AddMeasurement."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch

from normdiag.evidence.stream import AddMeasurement, AddRms, Position
from normdiag.measure.passes.observer import AddRecord
from normdiag.measure.statistics.add_statistics import AddRows
from normdiag.measure.statistics.column import Column
from normdiag.measure.statistics.extremes import AddExtremes
from normdiag.measure.statistics.summaries import Numbers

Rows = tuple[int, ...]
"""Which sequences of the probe one pass ran, in the order of its batch."""


@dataclass(frozen=True, slots=True)
class TokenNumbers:
    """The per-token numbers of one add in one pass, padding left out."""

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

    @property
    def out_ratio(self) -> Numbers:
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(self.out / self.skip)


def token_numbers(record: AddRecord, rows: AddRows, own: Rows) -> TokenNumbers:
    """The numbers of one pass; `own` are its sequences."""
    tokens = record.tokens
    n = rows.out_square.numel()
    valid = np.arange(n) if tokens.valid is None else tokens.valid.cpu().numpy()
    xx, uu, yy = (_host(t)[valid] for t in (rows.skip_square, rows.branch_square, rows.out_square))
    xu, xy = (_host(t)[valid] for t in (rows.skip_branch, rows.skip_out))
    skip, branch, out = np.sqrt(xx), np.sqrt(uu), np.sqrt(yy)
    with np.errstate(invalid="ignore", divide="ignore"):
        cosine = np.where((skip != 0) & (branch != 0), xu / (skip * branch), 0.0)
        turn = np.arctan2(_host(rows.across)[valid], xy / skip)
        angle = np.degrees(np.where((skip != 0) & (out != 0), turn, 0.0))
    sequence, position = tokens.places(valid)
    return TokenNumbers(
        skip, branch, out, cosine, angle,
        _host(rows.max_abs)[valid], _host(rows.max_channel)[valid], _host(rows.kurtosis)[valid],
        _host(rows.median_abs)[valid],
        numbered(sequence.astype(float), own), position.astype(float),
    )  # fmt: skip


def numbered(local: Numbers, own: Rows) -> Numbers:
    """The probe's sequence numbers of a pass's `local` ones; its tokens may be one flat row."""
    if local.size and int(local.max()) < len(own):
        numbers: Numbers = np.asarray(own, dtype=np.float64)[local.astype(int)]
        return numbers
    return local + (own[0] if own else 0)


_COLUMNS = (
    "skip", "branch", "out", "update_ratio", "out_ratio", "cosine", "angle", "kurtosis",
    "median_abs",
)  # fmt: skip
_SIDES = ("skip", "branch", "out")


@dataclass(slots=True)
class AddStream:
    """One add over all passes."""

    columns: dict[str, Column] = field(default_factory=lambda: {c: Column() for c in _COLUMNS})
    later: Column = field(default_factory=Column)
    """||y|| without the first token of each sequence."""
    largest: tuple[float, int, Position] | None = None
    """The largest |y|, its channel and its token."""
    squares: dict[str, float] = field(default_factory=lambda: dict.fromkeys(_SIDES, 0.0))
    """Sums over tokens of ||x||^2, ||u||^2, ||y||^2."""
    nonfinite: int = 0
    elements: int = 0
    """How many values each of these sums is over."""
    pairs: float = 0.0
    pair_cosine: float = 0.0
    extremes: AddExtremes = field(default_factory=AddExtremes)

    def take(self, numbers: TokenNumbers, rows: AddRows) -> None:
        """One pass more."""
        self.nonfinite += int((~torch.isfinite(rows.out_square)).sum())
        if not numbers.out.size:
            return
        for name, column in self.columns.items():
            column.take(getattr(numbers, name))
        for name in _SIDES:
            self.squares[name] += float(np.square(getattr(numbers, name)).sum())
        self.elements += numbers.out.size * rows.features
        self.later.take(numbers.out[~numbers.is_first])
        at = int(np.argmax(numbers.max_abs))
        largest = float(numbers.max_abs[at])
        # a NaN is the largest there can be
        if self.largest is None or not largest <= self.largest[0]:
            token = Position(sequence=int(numbers.sequence[at]), position=int(numbers.position[at]))
            self.largest = (largest, int(numbers.max_channel[at]), token)
        self.pairs += rows.pairs
        self.pair_cosine += float(rows.pair_cosine)

    def growing_norm(self) -> float:
        """What the growth law is fitted to: the mean ||y||, first tokens left out if it can be."""
        return self.later.mean if self.later.count else self.columns["out"].mean

    def update_ratio(self) -> float:
        """||u|| / ||x|| of the median token."""
        return self.columns["update_ratio"].median

    def sink_ratio(self) -> float | None:
        """Mean ||y|| of the first tokens over that of the others; None without one or the other."""
        out, later = self.columns["out"], self.later
        firsts = out.count - later.count
        if not (firsts and later.count and later.mean):
            return None
        return (out.total - later.total) / firsts / later.mean

    def result(self) -> AddMeasurement | None:
        """None where there was no token."""
        if self.largest is None:
            return None
        columns = self.columns
        max_abs, channel, token = self.largest
        return AddMeasurement(
            tokens=columns["out"].count,
            skip_norm=columns["skip"].typical(),
            branch_norm=columns["branch"].typical(),
            out_norm=columns["out"].typical(),
            update_ratio=columns["update_ratio"].typical(),
            cosine=columns["cosine"].typical(),
            angle_deg=columns["angle"].typical(),
            max_abs=max_abs,
            max_channel=channel,
            max_token=token,
            median_abs=columns["median_abs"].median,
            token_cosine=self.pair_cosine / self.pairs if self.pairs else None,
            kurtosis=columns["kurtosis"].typical(),
            out_ratio=columns["out_ratio"].typical(),
            sink_ratio=self.sink_ratio(),
            nonfinite=self.nonfinite,
            rms=AddRms(**{k: (v / self.elements) ** 0.5 for k, v in self.squares.items()}),
            skip_dtype=self.extremes.skip_dtype,
            branch_dtype=self.extremes.branch_dtype,
            skip_max_abs=self.extremes.skip_max,
            branch_max_abs=self.extremes.branch_max,
            padded_nonfinite=self.extremes.padded_nonfinite,
            nonfinite_elements=self.extremes.nonfinite_elements,
        )


def _host(tensor: torch.Tensor) -> Numbers:
    return tensor.detach().double().cpu().numpy()
