"""What scales x by a statistic over its features and is neither LayerNorm nor RMSNorm."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

Function = Callable[[torch.Tensor], torch.Tensor]
EPS = 1e-6


@dataclass(frozen=True)
class Spelling:
    """One formula, by what x is scaled and how the output's size goes with that of x."""

    function: Function
    scaling: str
    exponent: int
    """p of y(a x) = a^p y(x)."""
    is_centred: bool = False


def _centre(x: torch.Tensor) -> torch.Tensor:
    return x - x.mean(-1, keepdim=True)


def _variance(x: torch.Tensor) -> torch.Tensor:
    return x.var(-1, keepdim=True, unbiased=False)


def _mean_square(x: torch.Tensor) -> torch.Tensor:
    return x.pow(2).mean(-1, keepdim=True)


SPELLINGS: dict[str, Spelling] = {
    "x / std": Spelling(
        lambda x: x / torch.sqrt(_variance(x) + EPS), "divided by its standard deviation", 0
    ),
    "x / std()": Spelling(
        lambda x: x / (x.std(-1, keepdim=True) + EPS), "divided by its standard deviation", 0
    ),
    "x rsqrt(var)": Spelling(
        lambda x: x * torch.rsqrt(_variance(x) + EPS), "divided by its standard deviation", 0
    ),
    "x rsqrt(var written out)": Spelling(
        lambda x: x * torch.rsqrt(_centre(x).square().mean(-1, keepdim=True) + EPS),
        "divided by its standard deviation", 0,
    ),
    "x / var": Spelling(lambda x: x / (_variance(x) + EPS), "divided by its variance", -1),
    "(x - m) / var": Spelling(
        lambda x: _centre(x) / (_variance(x) + EPS), "divided by its variance", -1, True
    ),
    "x / mean square": Spelling(
        lambda x: x / (_mean_square(x) + EPS), "divided by its mean square", -1
    ),
    "x / rsqrt(mean square)": Spelling(
        lambda x: x / torch.rsqrt(_mean_square(x) + EPS), "multiplied by its root mean square", 2
    ),
    "x sqrt(mean square)": Spelling(
        lambda x: x * torch.sqrt(_mean_square(x) + EPS), "multiplied by its root mean square", 2
    ),
    "x sum of squares": Spelling(
        lambda x: x * x.square().sum(-1, keepdim=True), "multiplied by its sum of squares", 3
    ),
    "x / sum |x|": Spelling(
        lambda x: x / (x.abs().sum(-1, keepdim=True) + EPS), "divided by its sum of |x|", 0
    ),
    "F.normalize p=1": Spelling(
        lambda x: torch.nn.functional.normalize(x, p=1, dim=-1), "divided by its sum of |x|", 0
    ),
    "x / mean |x|": Spelling(
        lambda x: x / x.abs().mean(-1, keepdim=True), "divided by its mean of |x|", 0
    ),
    "x / max |x|": Spelling(
        lambda x: x / x.abs().amax(-1, keepdim=True), "divided by its largest |x|", 0
    ),
    "x / max x": Spelling(
        lambda x: x / x.max(-1, keepdim=True).values, "divided by its largest value", 0
    ),
    "(x - m) / mean |x|": Spelling(
        lambda x: _centre(x) / (x.abs().mean(-1, keepdim=True) + EPS),
        "divided by its mean of |x|", 0, True,
    ),
    "x / rms of a part": Spelling(
        lambda x: x * torch.rsqrt(_mean_square(x[..., :8]) + EPS),
        "divided by its root mean square, of features 0 to 7", 0,
    ),
    "(x - m) rms": Spelling(
        lambda x: _centre(x) * _mean_square(x).sqrt(), "multiplied by its root mean square", 2, True
    ),
}  # fmt: skip
