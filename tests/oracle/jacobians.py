"""Singular values of a norm's Jacobian, token by token, by dense linear algebra in float64.

sigma_max and the smallest tangential value come from the SVD of the Jacobian that autograd finds.
The radial value may be 1e-12 of them, where a dense SVD has no digit left; it is the inverse of
the largest value of the pseudo-inverse, in which 1 - c enters as eps / s^2 without cancellation.
"""

from __future__ import annotations

import numpy as np
import torch
from torch.nn import functional

from tests.oracle.numbers import Numbers, least, median_max, second_moment
from tests.oracle.taps import Array

DIGITS = 1e-11  # where radial / sigma_max is above this, the dense SVD must agree to 1e-4


def of_jacobian(x: Array, kind: str, eps: float, gain: Array) -> Numbers:
    """The summary over tokens x (tokens, features) of a norm whose gain has no zero."""
    values = np.stack([_spectrum(token, kind, eps, gain) for token in x])
    last = x.shape[-1] - (1 if kind == "layernorm" else 0)  # values beyond are 0 by centring
    high, low = values[:, 0], values[:, last - 2]
    dead = int((np.abs(gain) <= 2**-23 * np.abs(gain).max()).sum())
    radial = _radial(x, kind, eps, gain)
    seen = radial > DIGITS * high
    np.testing.assert_allclose(values[seen, last - 1], radial[seen], rtol=1e-4)
    return {
        "sigma_max": median_max(high),
        "sigma_min": least(low),
        "kappa": median_max(high / low),
        "radial": median_max(radial),
        "tokens": len(x),
        "sample": len(x),
        "live_kappa": median_max(high / values[:, last - 2 - dead]),
    }


def _spectrum(token: Array, kind: str, eps: float, gain: Array) -> Array:
    weight, shape = torch.from_numpy(gain), (len(gain),)

    def norm(x: torch.Tensor) -> torch.Tensor:
        if kind == "layernorm":
            return functional.layer_norm(x, shape, weight, None, eps)
        return functional.rms_norm(x, shape, weight, eps)

    dense = torch.func.jacrev(norm)(torch.from_numpy(token))
    return torch.linalg.svdvals(dense).numpy()


def _radial(x: Array, kind: str, eps: float, gain: Array) -> Array:
    """With J = D A / s and w = A v: min |J v| / |v| = 1 / (s max |A^+ w| / |D w|).

    A = P - c z z' and A^+ = P + (c / (1 - c)) z z', P being the identity or the centring.
    """
    scaled = _unit_columns(gain, kind)
    centre = x.mean(-1, keepdims=True) if kind == "layernorm" else 0.0
    z = (x - centre) / np.linalg.norm(x - centre, axis=-1, keepdims=True)
    m2 = second_moment(x, kind)
    rank_one = m2 / eps  # c / (1 - c)
    inverse = [_largest(scaled, r, zh, zh @ scaled) for r, zh in zip(rank_one, z, strict=True)]
    return 1 / (np.sqrt(m2 + eps) * np.array(inverse))


def _unit_columns(gain: Array, kind: str) -> Array:
    """A matrix W with |D W v| = |v|, whose columns span all w (of mean 0, for LayerNorm).

    There w_p = -sum of the others, for the smallest gain g_p, and w_i = v_i / g_i for the others
    give |D w|^2 = v' (I + r r') v with r_i = g_p / g_i <= 1: well conditioned for any gains.
    """
    if kind != "layernorm":
        return np.diag(1 / gain)
    p = np.abs(gain).argmin()
    others = np.delete(np.arange(len(gain)), p)
    columns = np.zeros((len(gain), len(others)))
    columns[others, np.arange(len(others))] = 1 / gain[others]
    columns[p] = -1 / gain[others]
    r = gain[p] / gain[others]
    root = (1 - 1 / np.sqrt(1 + r @ r)) / (r @ r)  # (I + r r')^(-1/2) = I - root r r'
    return columns - root * np.outer(columns @ r, r)


def _largest(matrix: Array, weight: float, left: Array, right: Array) -> float:
    """||matrix + weight left right'||_2, by power iteration with a dense SVD behind it."""
    full, direction, before = matrix + weight * np.outer(left, right), right, 0.0
    for _ in range(60):
        direction = full.T @ (full @ direction)
        length = np.linalg.norm(direction)
        direction, value = direction / length, np.sqrt(length)
        if abs(value - before) <= 1e-13 * value:
            return float(value)
        before = value
    return float(np.linalg.norm(full, 2))
