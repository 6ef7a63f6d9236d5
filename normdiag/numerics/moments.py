"""Streaming mean, variance and range: values with update, merge and result.

Two parts are merged by their counts, means and sums of squared deviations (Chan, Golub and LeVeque
1983), so every split of the data gives the same answer up to rounding in float64, and a variance is
never the difference of two large numbers. Sums stay on the device of the data until `result`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What a stream came to, element by element, float64 on the CPU. NaN (and 0) of nothing."""

    count: Tensor
    mean: Tensor
    variance: Tensor
    """Mean squared deviation, over count and not count - 1."""
    min: Tensor
    max: Tensor


@dataclass(frozen=True, slots=True)
class Moments:
    """Count, mean, squared deviations and range of a stream of elements of one shape."""

    count: Tensor
    mean: Tensor
    deviation: Tensor
    """sum (x - mean)^2."""
    min: Tensor
    max: Tensor

    @classmethod
    def empty(cls, shape: tuple[int, ...] = (), device: torch.device | str = "cpu") -> Moments:
        """Of nothing yet; elements have `shape`, () for numbers."""
        zero = torch.zeros(shape, dtype=torch.float64, device=device)
        count = torch.zeros((), dtype=torch.float64, device=device)
        return cls(count, zero, zero, zero + torch.inf, zero - torch.inf)

    def update(self, values: Tensor, where: Tensor | None = None) -> Moments:
        """With more elements: values (N, *shape), those for which `where` (N,) holds."""
        if len(values) == 0:
            return self
        x = values.to(torch.float64)
        if where is None:
            count, kept, low, high = x.new_tensor(float(len(x))), x, x, x
        else:
            held = where.view(-1, *[1] * (x.ndim - 1))
            count = where.to(torch.float64).sum()
            kept = torch.where(held, x, 0.0)
            low, high = torch.where(held, x, torch.inf), torch.where(held, x, -torch.inf)
        mean = kept.sum(0) / count.clamp_min(1)
        away = x - mean if where is None else torch.where(held, x - mean, 0.0)
        part = Moments(count, mean, away.square().sum(0), low.amin(0), high.amax(0))
        return self.merge(part)

    def merge(self, other: Moments) -> Moments:
        """Of both streams."""
        count = self.count + other.count
        share = other.count / count.clamp_min(1)
        apart = other.mean - self.mean
        between = torch.where(self.count * other.count > 0, apart.square() * self.count * share, 0)
        return Moments(
            count,
            torch.where(other.count > 0, self.mean + apart * share, self.mean),
            self.deviation + other.deviation + between,
            torch.minimum(self.min, other.min),
            torch.maximum(self.max, other.max),
        )

    def result(self) -> Summary:
        """The statistics, in one transfer to the host."""
        columns = (self.mean, self.deviation, self.min, self.max)
        host = torch.stack([*columns, self.count.expand_as(self.mean)]).cpu()
        mean, deviation, low, high, count = host
        empty = count == 0
        none = torch.full_like(mean, torch.nan)
        return Summary(
            count=count,
            mean=torch.where(empty, none, mean),
            variance=torch.where(empty, none, deviation / count),
            min=torch.where(empty, none, low),
            max=torch.where(empty, none, high),
        )


@dataclass(frozen=True, slots=True)
class VectorMean:
    """The mean of a stream of vectors: what all of them have in common."""

    count: Tensor
    sum: Tensor

    @classmethod
    def empty(cls, features: int, device: torch.device | str = "cpu") -> VectorMean:
        """Of nothing yet."""
        zero = torch.zeros(features, dtype=torch.float64, device=device)
        return cls(zero.sum(), zero)

    def update(self, rows: Tensor, where: Tensor | None = None) -> VectorMean:
        """With more vectors: rows (N, H), those for which `where` (N,) holds."""
        x = rows.to(torch.float64)
        if where is None:
            return VectorMean(self.count + len(x), self.sum + x.sum(0))
        kept = torch.where(where[:, None], x, 0.0)
        return VectorMean(self.count + where.sum(), self.sum + kept.sum(0))

    def merge(self, other: VectorMean) -> VectorMean:
        """Of both streams."""
        return VectorMean(self.count + other.count, self.sum + other.sum)

    def result(self) -> Tensor:
        """The mean vector (H,), float64 on the CPU; NaN of nothing."""
        mean: Tensor = (self.sum / self.count).cpu()
        return mean
