"""The measurement of one residual add, from the statistics per token of all passes."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch

from normdiag.evidence.stream import AddMeasurement, AddQuantiles, AddRms, TokenPosition
from normdiag.measure.passes.records import AddRecord
from normdiag.measure.sites.add_extremes import AddExtremes
from normdiag.measure.statistics.accumulator import merge_by_id
from normdiag.measure.statistics.add_statistics import AddTokenStatistics
from normdiag.measure.statistics.earliest_pass import SequenceNumbers
from normdiag.measure.statistics.largest_element import LargestElement
from normdiag.measure.statistics.rows import to_numpy
from normdiag.measure.statistics.summaries import Numbers
from normdiag.measure.statistics.token_statistics import TokenStatistics


@dataclass(frozen=True, slots=True)
class TokenNumbers:
    """Numbers per token of one add in one pass, on the host, padding left out."""

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


def compute_token_numbers(
    record: AddRecord, statistics: AddTokenStatistics, sequences: SequenceNumbers
) -> TokenNumbers:
    """Compute norms, cosines and angles from the statistics of one pass over `sequences`."""
    tokens = record.tokens
    count = statistics.out_square.numel()
    valid = np.arange(count) if tokens.valid is None else tokens.valid.cpu().numpy()

    def select_tokens(values: torch.Tensor) -> Numbers:
        selected: Numbers = to_numpy(values)[valid]
        return selected

    skip, branch, out = (
        np.sqrt(select_tokens(squares))
        for squares in (statistics.skip_square, statistics.branch_square, statistics.out_square)
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        cosine = select_tokens(statistics.skip_branch) / (skip * branch)
        along = select_tokens(statistics.skip_out) / skip
        angle = np.degrees(np.arctan2(select_tokens(statistics.orthogonal_norm), along))
    sequence, position = tokens.token_places(valid)
    return TokenNumbers(
        skip=skip,
        branch=branch,
        out=out,
        cosine=np.where((skip != 0) & (branch != 0), cosine, 0.0),
        angle=np.where((skip != 0) & (out != 0), angle, 0.0),
        max_abs=select_tokens(statistics.max_abs),
        max_channel=select_tokens(statistics.max_channel),
        kurtosis=select_tokens(statistics.kurtosis),
        median_abs=select_tokens(statistics.median_abs),
        sequence=global_sequences(sequence.astype(float), sequences),
        position=position.astype(float),
    )


def global_sequences(local: Numbers, sequences: SequenceNumbers) -> Numbers:
    """Sequence numbers over all inputs of a pass's `local` ones.

    The tokens of several sequences may be one flat row: they count on from the pass's first.
    """
    if local.size and int(local.max()) < len(sequences):
        numbers: Numbers = np.asarray(sequences, dtype=np.float64)[local.astype(int)]
        return numbers
    return local + (sequences[0] if sequences else 0)


_COLUMNS = (
    "skip", "branch", "out", "update_ratio", "out_ratio", "cosine", "angle", "kurtosis",
    "median_abs",
)  # fmt: skip
_SIDES = ("skip", "branch", "out")


@dataclass(slots=True)
class AddAccumulator:
    """Accumulator of one residual add's measurement."""

    columns: dict[str, TokenStatistics] = field(
        default_factory=lambda: {name: TokenStatistics() for name in _COLUMNS}
    )
    later_out: TokenStatistics = field(default_factory=TokenStatistics)
    """||y|| without the first token of each sequence."""
    largest: LargestElement = field(default_factory=LargestElement)
    """The largest |y|."""
    squares: dict[str, float] = field(default_factory=lambda: dict.fromkeys(_SIDES, 0.0))
    """Sums over tokens of ||x||^2, ||u||^2, ||y||^2."""
    nonfinite: int = 0
    elements: int = 0
    """How many values each of these sums is over."""
    pairs: float = 0.0
    pair_cosine: float = 0.0
    extremes: AddExtremes = field(default_factory=AddExtremes)

    def update(self, record: AddRecord, numbers: TokenNumbers, sequences: SequenceNumbers) -> None:
        """Add one pass, if it measured statistics: `numbers` are those of its tokens."""
        statistics = record.statistics
        if statistics is None:
            return
        self.extremes.update(record, sequences)
        self.nonfinite += int((~torch.isfinite(statistics.out_square)).sum())
        if not numbers.out.size:
            return
        for name, column in self.columns.items():
            column.update(getattr(numbers, name))
        for name in _SIDES:
            self.squares[name] += float(np.square(getattr(numbers, name)).sum())
        self.elements += numbers.out.size * statistics.features
        self.later_out.update(numbers.out[~numbers.is_first])
        self.largest.update(
            numbers.max_abs, numbers.sequence, numbers.position, numbers.max_channel
        )
        self.pairs += statistics.pairs
        self.pair_cosine += float(statistics.pair_cosine)

    def merge(self, other: AddAccumulator) -> None:
        """Add the passes of `other`."""
        merge_by_id(self.columns, other.columns)
        self.later_out.merge(other.later_out)
        self.largest.merge(other.largest)
        for side, total in other.squares.items():
            self.squares[side] += total
        self.nonfinite += other.nonfinite
        self.elements += other.elements
        self.pairs += other.pairs
        self.pair_cosine += other.pair_cosine
        self.extremes.merge(other.extremes)

    def growth_norm(self) -> float:
        """What the growth law is fitted to: the mean ||y||, first tokens left out if it can be."""
        return self.later_out.mean if self.later_out.count else self.columns["out"].mean

    def mean_squares(self) -> tuple[float, float]:
        """Mean ||x||^2 and mean ||y||^2 over all tokens."""
        count = max(self.columns["out"].count, 1)
        return self.squares["skip"] / count, self.squares["out"] / count

    def median_update_ratio(self) -> float:
        """||u|| / ||x|| of the median token."""
        return self.columns["update_ratio"].compute().median

    def first_norm(self) -> float | None:
        """Mean ||y|| of the first tokens; None where all are padding."""
        out, later = self.columns["out"], self.later_out
        firsts = out.count - later.count
        return (out.total - later.total) / firsts if firsts else None

    def sink_ratio(self) -> float | None:
        """Mean ||y|| of the first tokens over that of the others; None without one or the other."""
        first, later = self.first_norm(), self.later_out
        if first is None or not (later.count and later.mean):
            return None
        return first / later.mean

    def compute(self) -> AddMeasurement | None:
        """None where there was no token."""
        largest = self.largest.compute()
        if largest is None:
            return None
        max_abs, (sequence, position, channel) = largest
        summaries = {name: column.compute() for name, column in self.columns.items()}
        operands = self.extremes.compute()
        dtypes = operands.dtypes
        return AddMeasurement(
            tokens=self.columns["out"].count,
            skip_norm=summaries["skip"].to_mean_median_max(),
            branch_norm=summaries["branch"].to_mean_median_max(),
            out_norm=summaries["out"].to_mean_median_max(),
            update_ratio=summaries["update_ratio"].to_mean_median_max(),
            cosine=summaries["cosine"].to_mean_median_max(),
            angle_deg=summaries["angle"].to_mean_median_max(),
            max_abs=max_abs,
            max_channel=channel,
            max_token=TokenPosition(sequence=sequence, position=position),
            median_abs=summaries["median_abs"].median,
            token_cosine=self.pair_cosine / self.pairs if self.pairs else None,
            kurtosis=summaries["kurtosis"].to_mean_median_max(),
            out_ratio=summaries["out_ratio"].to_mean_median_max(),
            sink_ratio=self.sink_ratio(),
            nonfinite=self.nonfinite,
            rms=AddRms(**{k: (v / self.elements) ** 0.5 for k, v in self.squares.items()}),
            skip_dtype=None if dtypes is None else dtypes.skip,
            branch_dtype=None if dtypes is None else dtypes.branch,
            skip_max_abs=operands.skip_max,
            branch_max_abs=operands.branch_max,
            padded_nonfinite=operands.padded_nonfinite,
            nonfinite_elements=operands.nonfinite_elements,
            first_norm=self.first_norm(),
            quantiles=AddQuantiles(
                out_norm=summaries["out"].quantiles,
                update_ratio=summaries["update_ratio"].quantiles,
                cosine=summaries["cosine"].quantiles,
            ),
        )
