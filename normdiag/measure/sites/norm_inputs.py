"""The measurement of one norm, from the statistics per row of its input of all passes."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from normdiag.evidence.norm_inputs import Amplification, NormMeasurement, NormQuantiles
from normdiag.measure.passes.learned_values import LearnedValues
from normdiag.measure.passes.records import NormRecord
from normdiag.measure.statistics.rows import Indices, to_numpy
from normdiag.measure.statistics.summaries import Numbers
from normdiag.measure.statistics.token_statistics import TokenStatistics
from normdiag.structure.algebraic_forms import DetectedNorm
from normdiag.structure.input_free_tokens import find_input_free_positions

TOP_CHANNELS, CONSTANT_INDICES = 5, 32
"""How many are reported."""
_CONSTANT = 1e6
"""An input is constant to the norm where epsilon is this many times as large as m2."""


@dataclass(frozen=True, slots=True)
class Denominator:
    """s of one norm: sqrt(c m2 + eps), sqrt(c m2) + eps, max(sqrt(c m2), eps), or
    sqrt(max(c m2, eps)).

    A DyT, tanh(a x), divides by nothing: 1/s is a, by which it multiplies small x at most.
    """

    eps: float
    variance_scale: float
    place: str
    slope: float | None = None

    def compute_denominator(self, m2: Numbers) -> Numbers:
        """What the norm divides by, for each m2."""
        if self.slope is not None:
            return np.full_like(m2, 1.0 / self.slope)
        scaled = self.variance_scale * m2
        if self.place == "outside":
            return np.asarray(np.sqrt(scaled) + self.eps)
        if self.place == "floor":
            return np.maximum(np.sqrt(scaled), self.eps)
        if self.place == "floor-inside":
            return np.sqrt(np.maximum(scaled, self.eps))
        return np.asarray(np.sqrt(scaled + self.eps))

    def eps_share(self, m2: Numbers) -> Numbers:
        """The share of epsilon in the denominator.

        eps / (c m2 + eps) where it is added under the root, eps / (sqrt(c m2) + eps) where it is
        added to the root; with a floor 1 where the floor is what divides, else 0.
        """
        with np.errstate(invalid="ignore", divide="ignore"):
            if self.slope is not None:
                return np.zeros_like(m2)
            if self.place == "outside":
                return np.asarray(self.eps / self.compute_denominator(m2))
            if self.place == "floor":
                return (np.sqrt(self.variance_scale * m2) <= self.eps).astype(np.float64)
            if self.place == "floor-inside":
                return (self.variance_scale * m2 <= self.eps).astype(np.float64)
            return np.asarray(self.eps / (self.variance_scale * m2 + self.eps))

    @property
    def largest_factor(self) -> float | None:
        """The largest 1/s there can be."""
        if self.slope is not None:
            return self.slope
        if self.eps <= 0:
            return None
        return float(self.eps**-0.5) if self.is_inside else 1 / self.eps

    @property
    def is_inside(self) -> bool:
        """Whether epsilon has the unit of m2, not of its root."""
        return self.place in ("inside", "floor-inside")

    def is_constant(self, m2: Numbers) -> npt.NDArray[np.bool_]:
        """Where c m2 is a millionth of epsilon or less, of epsilon^2 where it is on the root."""
        squared = self.eps if self.is_inside else self.eps**2
        return np.asarray(_CONSTANT * self.variance_scale * m2 <= squared)


def norm_denominator(norm: DetectedNorm, learned: LearnedValues) -> Denominator:
    """The denominator that was read from the graph."""
    alpha = None if norm.alpha is None else learned.find_tensor(norm.alpha)
    slope = None if alpha is None else abs(float(alpha.detach()))
    return Denominator(
        learned.epsilon_value(norm) or 0.0, norm.variance_scale, norm.eps_place, slope
    )


@dataclass(slots=True)
class NormInputAccumulator:
    """Accumulator of one norm's measurement."""

    divisor: Denominator
    running_variance: Numbers | None = None
    """What a batch norm in eval mode divides by the root of, per channel."""
    groups: int = 1
    m2: TokenStatistics = field(default_factory=TokenStatistics)
    eps_share: TokenStatistics = field(default_factory=TokenStatistics)
    amplification: TokenStatistics = field(default_factory=TokenStatistics)
    tokens: int = 0
    constant: int = 0
    constant_without_input: int = 0
    padded_constant: int = 0
    eps_dominated: int = 0
    constant_groups: set[int] = field(default_factory=set)
    vectors: int = 0
    """How many vectors over channels `offset` is a sum of."""
    mean_sum: float = 0.0
    energy_sum: float = 0.0
    square_sum: float = 0.0
    offset: Numbers | None = None
    """Sum of x, per channel."""
    channel_max: Numbers | None = None
    """max |x|, per channel."""

    @classmethod
    def for_norm(cls, norm: DetectedNorm, learned: LearnedValues) -> NormInputAccumulator:
        """An empty one."""
        divisor = norm_denominator(norm, learned)
        running = None if norm.running_var is None else learned.find_tensor(norm.running_var)
        if running is None:
            return cls(divisor, groups=norm.groups)
        accumulator = cls(divisor, to_numpy(running), norm.groups)
        accumulator._update_variances(to_numpy(running))
        return accumulator

    def update(self, record: NormRecord) -> None:
        """Add one pass, if it measured statistics."""
        statistics = record.statistics
        if statistics is None:
            return
        valid = _valid_rows(record, statistics.m2.numel())
        all_m2, square = to_numpy(statistics.m2), to_numpy(statistics.square_sum)[valid]
        m2, mean = all_m2[valid], to_numpy(statistics.mean)[valid]
        if not m2.size:
            return
        if self.running_variance is None:
            self._update_variances(m2)
            self._count_constant(all_m2, valid, record.norm)
        with np.errstate(invalid="ignore", divide="ignore"):
            energy = np.where(square != 0, record.input_rows.shape[-1] * mean**2 / square, 0.0)
        self.tokens += m2.size
        self.vectors += statistics.vectors
        self.mean_sum += float(mean.sum())
        self.energy_sum += float(energy.sum())
        self.square_sum += float(square.sum())
        self._update_channels(to_numpy(statistics.offset), to_numpy(statistics.channel_max))

    def merge(self, other: NormInputAccumulator) -> None:
        """Add the passes of `other`, which is of the same norm."""
        if self.running_variance is None:
            self.m2.merge(other.m2)
            self.eps_share.merge(other.eps_share)
            self.amplification.merge(other.amplification)
            self.eps_dominated += other.eps_dominated
        self.tokens += other.tokens
        self.constant += other.constant
        self.constant_without_input += other.constant_without_input
        self.padded_constant += other.padded_constant
        self.constant_groups |= other.constant_groups
        self.vectors += other.vectors
        self.mean_sum += other.mean_sum
        self.energy_sum += other.energy_sum
        self.square_sum += other.square_sum
        if other.offset is not None and other.channel_max is not None:
            self._update_channels(other.offset, other.channel_max)

    def compute(self) -> NormMeasurement | None:
        """None where there was no token."""
        if self.offset is None or self.channel_max is None:
            return None
        offset = self.offset / self.vectors
        variance, share = self.m2.compute(), self.eps_share.compute()
        amplification = self.amplification.compute()
        constant, indices = self.constant, sorted(self.constant_groups)
        if self.running_variance is not None:
            indices = np.flatnonzero(self.divisor.is_constant(self.running_variance)).tolist()
            constant = len(indices)
        return NormMeasurement(
            tokens=self.tokens,
            input_mean=self.mean_sum / self.tokens,
            input_var=variance.to_range(),
            eps_share=share.to_median_max(),
            amplification=Amplification(
                median=amplification.median,
                max=amplification.max,
                bound=self.divisor.largest_factor,
            ),
            mean_energy=self.energy_sum / self.tokens,
            offset_share=_safe_ratio(float(offset @ offset), self.square_sum / self.vectors),
            max_abs=float(self.channel_max.max()),
            top_channels=_top_channels(self.channel_max),
            constant=constant,
            constant_without_input=self.constant_without_input,
            padded_constant=self.padded_constant,
            constant_indices=tuple(indices[:CONSTANT_INDICES]),
            eps_dominated=self.eps_dominated,
            quantiles=NormQuantiles(input_var=variance.quantiles, eps_share=share.quantiles),
        )

    def _update_variances(self, m2: Numbers) -> None:
        with np.errstate(invalid="ignore", divide="ignore"):
            self.m2.update(m2)
            share = self.divisor.eps_share(m2)
            self.eps_share.update(share)
            self.eps_dominated += int((share > 1 / 2).sum())
            self.amplification.update(1.0 / self.divisor.compute_denominator(m2))

    def _count_constant(self, all_m2: Numbers, valid: slice | Indices, norm: DetectedNorm) -> None:
        """Count constant inputs among all rows, padding included."""
        is_constant = self.divisor.is_constant(all_m2)
        constant_rows = np.arange(all_m2.size)[valid][is_constant[valid]]
        self.constant += constant_rows.size
        self.padded_constant += int(is_constant.sum()) - constant_rows.size
        if self.groups > 1:
            self.constant_groups.update((constant_rows % self.groups).tolist())
        elif constant_rows.size and norm.axes == (-1,):
            free = find_input_free_positions(norm.source)
            if free:
                positions = constant_rows % norm.source.shape[-2]
                self.constant_without_input += int(np.isin(positions, free).sum())

    def _update_channels(self, offset: Numbers, channel_max: Numbers) -> None:
        self.offset = offset.copy() if self.offset is None else self.offset + offset
        self.channel_max = (
            channel_max.copy()
            if self.channel_max is None
            else np.maximum(self.channel_max, channel_max)
        )


def _safe_ratio(part: float, whole: float) -> float:
    return part / whole if whole != 0 else 0.0


def _top_channels(channel_max: Numbers) -> tuple[int, ...]:
    sizes = np.nan_to_num(channel_max, nan=np.inf)
    return tuple(int(i) for i in np.argsort(-sizes, kind="stable")[:TOP_CHANNELS])


def _valid_rows(record: NormRecord, count: int) -> slice | Indices:
    if record.tokens.valid is None:
        return slice(0, count)
    return record.tokens.valid.cpu().numpy()
