"""What each norm sees: from the passes' per-row statistics to one NormMeasurement."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch

from normdiag.evidence.norm_inputs import Amplification, NormJacobian, NormMeasurement
from normdiag.measure.passes.learned_values import LearnedValues
from normdiag.measure.passes.observer import NormRecord
from normdiag.measure.statistics.column import Column
from normdiag.measure.statistics.norm_statistics import NormRows
from normdiag.measure.statistics.summaries import Numbers
from normdiag.structure.forms import DetectedNorm

TOP_CHANNELS, PLACES = 5, 32
_CONSTANT = 1e6
"""An input is constant to the norm where epsilon is this many times as large as m2."""


@dataclass(frozen=True, slots=True)
class Denominator:
    """s of one norm: sqrt(c m2 + eps), or sqrt(c m2) + eps, or max(sqrt(c m2), eps).

    A DyT, tanh(a x), divides by nothing: 1/s is a, by which it multiplies small x at most.
    """

    eps: float
    variance_scale: float
    place: str
    slope: float | None = None

    def s(self, m2: Numbers) -> Numbers:
        """What the norm divides by."""
        if self.slope is not None:
            return np.full_like(m2, 1.0 / self.slope)
        scaled = self.variance_scale * m2
        if self.place == "outside":
            return np.asarray(np.sqrt(scaled) + self.eps)
        if self.place == "floor":
            return np.maximum(np.sqrt(scaled), self.eps)
        return np.asarray(np.sqrt(scaled + self.eps))

    def eps_share(self, m2: Numbers) -> Numbers:
        """How much of the denominator is epsilon: eps / (m2 + eps) where it is under the root."""
        with np.errstate(invalid="ignore", divide="ignore"):
            if self.slope is not None:
                return np.zeros_like(m2)
            if self.place == "outside":
                return np.asarray(self.eps / self.s(m2))
            if self.place == "floor":
                return (np.sqrt(self.variance_scale * m2) <= self.eps).astype(np.float64)
            return np.asarray(self.eps / (self.variance_scale * m2 + self.eps))

    @property
    def bound(self) -> float | None:
        """The largest 1/s there can be."""
        if self.slope is not None:
            return self.slope
        if self.eps <= 0:
            return None
        return 1 / self.eps if self.place != "inside" else float(self.eps**-0.5)


def denominator(norm: DetectedNorm, learned: LearnedValues) -> Denominator:
    """The denominator as it was found."""
    alpha = None if norm.alpha is None else learned.values(norm.alpha)
    slope = None if alpha is None else abs(float(alpha.detach()))
    return Denominator(learned.epsilon_value(norm) or 0.0, norm.variance_scale, norm.eps_place, slope)


@dataclass(slots=True)
class NormStream:
    """One norm over all passes."""

    divisor: Denominator
    running: Numbers | None = None
    """What a batch norm in eval mode divides by the root of, per channel."""
    m2: Column = field(default_factory=Column)
    share: Column = field(default_factory=Column)
    amplification: Column = field(default_factory=Column)
    tokens: int = 0
    groups: int = 1
    constant: int = 0
    padded_constant: int = 0
    dominated: int = 0
    places: set[int] = field(default_factory=set)
    """The groups, or channels, of constant inputs."""
    vectors: int = 0
    mean_sum: float = 0.0
    energy_sum: float = 0.0
    square_sum: float = 0.0
    offset: Numbers | None = None
    channels: Numbers | None = None

    @classmethod
    def of(cls, norm: DetectedNorm, learned: LearnedValues) -> NormStream:
        """For one norm of the first pass."""
        running = None if norm.running_var is None else learned.values(norm.running_var)
        stream = cls(denominator(norm, learned), None if running is None else _host(running))
        stream.groups = norm.groups
        if stream.running is not None:
            stream._take_m2(stream.running)
        return stream

    def take(self, record: NormRecord, rows: NormRows) -> None:
        """One pass more."""
        valid = _valid(record, rows.m2.numel())
        everything, square = _host(rows.m2), _host(rows.square_sum)[valid]
        m2, mean = everything[valid], _host(rows.mean)[valid]
        if not m2.size:
            return
        if self.running is None:
            self._take_m2(m2)
            is_constant = self._are_constant(everything)
            here = int(is_constant[valid].sum())
            self.constant += here
            self.padded_constant += int(is_constant.sum()) - here
            if self.groups > 1:
                rows_of = np.arange(everything.size)[valid][is_constant[valid]]
                self.places.update((rows_of % self.groups).tolist())
        with np.errstate(invalid="ignore", divide="ignore"):
            energy = np.where(square != 0, record.input_rows.shape[-1] * mean**2 / square, 0.0)
        self.tokens += m2.size
        self.vectors += rows.vectors
        self.mean_sum += float(mean.sum())
        self.energy_sum += float(energy.sum())
        self.square_sum += float(square.sum())
        offset, channels = _host(rows.offset), _host(rows.channel_max)
        self.offset = offset.copy() if self.offset is None else self.offset + offset
        self.channels = (
            channels.copy() if self.channels is None else np.maximum(self.channels, channels)
        )

    def _take_m2(self, m2: Numbers) -> None:
        with np.errstate(invalid="ignore", divide="ignore"):
            self.m2.take(m2)
            share = self.divisor.eps_share(m2)
            self.share.take(share)
            self.dominated += int((share > 1 / 2).sum())
            self.amplification.take(1.0 / self.divisor.s(m2))

    def _are_constant(self, m2: Numbers) -> npt.NDArray[np.bool_]:
        scaled = _CONSTANT * self.divisor.variance_scale * m2
        return np.asarray(scaled <= self.divisor.eps)

    def result(self, jacobian: NormJacobian | None) -> NormMeasurement | None:
        """None where there was no token."""
        if self.offset is None or self.channels is None:
            return None
        offset = self.offset / self.vectors
        amplification = self.amplification.worst()
        constant, places = self.constant, sorted(self.places)
        if self.running is not None:
            places = np.flatnonzero(self._are_constant(self.running)).tolist()
            constant = len(places)
        return NormMeasurement(
            tokens=self.tokens,
            input_mean=self.mean_sum / self.tokens,
            input_var=self.m2.spread(),
            eps_share=self.share.worst(),
            amplification=Amplification(
                median=amplification.median, max=amplification.max, bound=self.divisor.bound
            ),
            mean_energy=self.energy_sum / self.tokens,
            offset_share=_share(float(offset @ offset), self.square_sum / self.vectors),
            max_abs=float(self.channels.max()),
            top_channels=_top(self.channels),
            constant=constant,
            padded_constant=self.padded_constant,
            constant_places=tuple(places[:PLACES]),
            dominated=self.dominated,
            jacobian=jacobian,
        )


def _share(part: float, whole: float) -> float:
    return part / whole if whole != 0 else 0.0


def _top(channels: Numbers) -> tuple[int, ...]:
    sizes = np.nan_to_num(channels, nan=np.inf)
    return tuple(int(i) for i in np.argsort(-sizes, kind="stable")[:TOP_CHANNELS])


def _valid(record: NormRecord, rows: int) -> slice | Numbers:
    if record.tokens.valid is None:
        return slice(0, rows)
    return record.tokens.valid.cpu().numpy()


def _host(tensor: torch.Tensor) -> Numbers:
    return tensor.detach().double().cpu().numpy()
