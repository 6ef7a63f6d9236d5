"""What a tool says of a model, in the same terms for all of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch

CLOSE = 1e-5


@dataclass(frozen=True, kw_only=True)
class Said:
    """`found` of the residual adds, and whether what is named adds up."""

    found: int = 0
    extra: int = 0
    """Values given as states of the stream that no residual add of a layer made."""
    identity: float | None = None
    """max |in + writes - out| / max |out| over what is named; None where nothing is."""
    norms: str = ""
    """The norms that the tool knows as norms."""
    placement: str = ""
    names: str = ""
    """How the sums of the second layer are called."""
    refusal: str = ""
    """The tool's own words where it gives nothing, or not all."""


def among(wanted: torch.Tensor, given: Iterable[torch.Tensor]) -> bool:
    """Whether one of `given` is `wanted`, up to rounding and to flattened leading dimensions."""
    return any(
        value.numel() == wanted.numel()
        and value.shape[-1] == wanted.shape[-1]
        and error(value.reshape(wanted.shape), wanted) < CLOSE
        for value in given
        if isinstance(value, torch.Tensor) and value.ndim > 1
    )


def error(value: torch.Tensor, wanted: torch.Tensor) -> float:
    """The largest difference, as a share of the largest wanted magnitude."""
    return float((value - wanted).abs().max() / wanted.abs().max())


def count(truth: Mapping[str, list[torch.Tensor]], given: list[torch.Tensor]) -> tuple[int, int]:
    """How many of the true sums are among `given`, and how many of `given` are no true sum."""
    sums = [value for values in truth.values() for value in values]
    return sum(among(s, given) for s in sums), sum(not among(g, sums) for g in given)
