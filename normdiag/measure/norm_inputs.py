"""What each norm sees: from the passes' per-row statistics to one NormMeasurement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from normdiag.evidence.norm_inputs import Amplification, NormJacobian, NormMeasurement
from normdiag.measure.learned import LearnedValues
from normdiag.measure.observer import NormRecord
from normdiag.measure.summaries import Numbers, spread, worst
from normdiag.structure.forms import NormFound

TOP_CHANNELS = 5
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


def denominator(norm: NormFound, learned: LearnedValues) -> Denominator:
    """The denominator as it was found."""
    alpha = None if norm.alpha is None else learned.values(norm.alpha)
    slope = None if alpha is None else abs(float(alpha.detach()))
    return Denominator(learned.eps(norm) or 0.0, norm.variance_scale, norm.eps_place, slope)


def measure_norm(
    records: Sequence[NormRecord], learned: LearnedValues, jacobian: NormJacobian | None
) -> NormMeasurement | None:
    """All passes of one norm as one measurement; None where nothing was kept."""
    seen = [(r, r.statistics) for r in records if r.statistics is not None]
    if not seen:
        return None
    norm = seen[0][0].found
    valid = [_valid(r, s.m2.numel()) for r, s in seen]
    pairs = list(zip(seen, valid, strict=True))
    m2_all = np.concatenate([_host(s.m2) for _, s in seen])
    m2 = np.concatenate([_host(s.m2)[v] for (_, s), v in pairs])
    mean = np.concatenate([_host(s.mean)[v] for (_, s), v in pairs])
    square = np.concatenate([_host(s.square_sum)[v] for (_, s), v in pairs])
    tokens = m2.size
    if tokens == 0:
        return None
    if norm.running_var is not None and (running := learned.values(norm.running_var)) is not None:
        m2 = _host(running)
    divisor = denominator(norm, learned)
    with np.errstate(invalid="ignore", divide="ignore"):
        energy = np.where(square > 0, _row_length(seen) * mean**2 / square, 0.0)
        amplification = 1.0 / divisor.s(m2)
    vectors = sum(s.vectors for _, s in seen)
    offset = np.sum([_host(s.offset) for _, s in seen], axis=0) / vectors
    mean_square = float(square.sum()) / vectors
    channels = np.max([_host(s.channel_max) for _, s in seen], axis=0)
    constant = _constants(m2, divisor)
    return NormMeasurement(
        tokens=tokens,
        input_mean=float(mean.mean()),
        input_var=spread(m2),
        eps_share=worst(divisor.eps_share(m2)),
        amplification=Amplification(
            median=worst(amplification).median,
            max=worst(amplification).max,
            bound=divisor.bound,
        ),
        mean_energy=float(energy.mean()),
        offset_share=_share(float(offset @ offset), mean_square),
        max_abs=float(channels.max()),
        top_channels=_top(channels),
        constant=constant,
        padded_constant=_constants(m2_all, divisor) - constant if m2_all.size > tokens else 0,
        jacobian=jacobian,
    )


def _row_length(seen: Sequence[tuple[NormRecord, object]]) -> int:
    return int(seen[0][0].input_rows.shape[-1])


def _share(part: float, whole: float) -> float:
    return part / whole if whole > 0 else 0.0


def _constants(m2: Numbers, divisor: Denominator) -> int:
    return int((_CONSTANT * divisor.variance_scale * m2 <= divisor.eps).sum())


def _top(channels: Numbers) -> tuple[int, ...]:
    return tuple(int(i) for i in np.argsort(-channels, kind="stable")[:TOP_CHANNELS])


def _valid(record: NormRecord, rows: int) -> slice | Numbers:
    if record.tokens.valid is None:
        return slice(0, rows)
    return record.tokens.valid.cpu().numpy()


def _host(tensor: torch.Tensor) -> Numbers:
    return tensor.detach().double().cpu().numpy()
