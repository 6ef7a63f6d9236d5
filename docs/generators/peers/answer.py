"""The answer of a tool about one model, in the same terms for every tool."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch

CLOSE = 1e-5


@dataclass(frozen=True, kw_only=True)
class ToolAnswer:
    """How many of the residual adds' sums a tool gives, and whether what it names adds up."""

    true_sums: int = 0
    extra: int = 0
    """Values values as states of the stream that no residual add of a layer made."""
    identity: float | None = None
    """max |in + writes - out| / max |out| over what is named; None where nothing is."""
    norms: str = ""
    """The norms that the tool knows as norms."""
    placement: str = ""
    names: str = ""
    """How the sums of the second layer are called."""
    refusal: str = ""
    """The tool's own words where it gives nothing, or not all."""


def is_among(wanted: torch.Tensor, values: Iterable[torch.Tensor]) -> bool:
    """Whether one of `values` is `wanted`, up to rounding and to flattened leading dimensions."""
    return any(
        value.numel() == wanted.numel()
        and value.shape[-1] == wanted.shape[-1]
        and relative_error(value.reshape(wanted.shape), wanted) < CLOSE
        for value in values
        if isinstance(value, torch.Tensor) and value.ndim > 1
    )


def relative_error(value: torch.Tensor, wanted: torch.Tensor) -> float:
    """The largest difference, as a share of the largest wanted magnitude."""
    return float((value - wanted).abs().max() / wanted.abs().max())


def count_sums(
    truth: Mapping[str, list[torch.Tensor]], values: list[torch.Tensor]
) -> tuple[int, int]:
    """How many of the true sums are among `values`, and how many of `values` are no true sum."""
    sums = [value for values in truth.values() for value in values]
    return sum(is_among(s, values) for s in sums), sum(not is_among(g, sums) for g in values)
