"""Theory stacks measured by normdiag, and the recursions that say what must come out."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F

import normdiag
from sample_models import theory

Numbers = npt.NDArray[np.float64]
Shape = tuple[int, int]


@cache
def report(
    placement: str, layers: int, width: int = 192, seed: int = 0, shape: Shape = (8, 8)
) -> normdiag.Report:
    model, inputs = theory.build(placement, width, layers, seed, shape)
    return normdiag.inspect(model, inputs=inputs, measure=("stream",))


def mean_squares(
    placement: str, layers: int, width: int = 192, seeds: int = 4, shape: Shape = (8, 8)
) -> Numbers:
    """q after each add, (seeds, adds): the mean square of y."""
    found = [report(placement, layers, width, s, shape).measurements.stream for s in range(seeds)]
    return np.array([[a.rms.out**2 for a in adds.values()] for adds in found])


def token_cosine(placement: str, layers: int, width: int, seeds: int, shape: Shape) -> float:
    """At the end of the stack, mean over seeds."""
    found = [report(placement, layers, width, s, shape).measurements.stream for s in range(seeds)]
    return float(np.mean([list(adds.values())[-1].token_cosine for adds in found]))


def top_gradient(placement: str, layers: int, width: int, seed: int, shape: Shape) -> float:
    """||dL/dW_2|| of the last layer, L the cross-entropy of random targets: plain autograd."""
    model, inputs = theory.build(placement, width, layers, seed, shape)
    targets = torch.randint(1000, shape, generator=torch.Generator().manual_seed(seed))
    loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
    (gradient,) = torch.autograd.grad(loss, model.layers[-1].network.inner.down.weight)
    return float(gradient.norm())


def recursion(
    layers: int, tokens: int, squared_scale: Callable[[int], float] = lambda layer: 1.0
) -> Numbers:
    """q after each layer of a pre-norm stack at initialisation, to leading order in 1/H.

    q is the mean square of a token, p the mean product of two tokens. Uniform attention adds the
    mean over `tokens` tokens of unit size to both. The network adds relu's 1/2 to q, and to p the
    arc-cosine kernel of their cosine (Cho and Saul 2009), halved.
    """
    q, p, found = 1.0, 0.0, []
    for layer in range(1, layers + 1):
        scale = squared_scale(layer)
        mean = 1 / tokens + (1 - 1 / tokens) * p / q
        q, p = q + scale * mean, p + scale * mean
        cosine = min(p / q, 1.0)
        angle = math.acos(cosine)
        kernel = (math.sqrt(1 - cosine**2) + cosine * (math.pi - angle)) / math.pi
        q, p = q + scale / 2, p + scale * kernel / 2
        found.append(q)
    return np.array(found)


def slope(x: tuple[int, ...], y: Numbers) -> float:
    """d log y / d log x."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])
