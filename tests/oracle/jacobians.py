"""Singular values of a norm's Jacobian, token by token, by dense linear algebra in float64.

sigma_max and the smallest tangential value come from the SVD of the Jacobian that autograd finds.
The radial value may be 1e-12 of them, where a dense SVD has no digit left; it is the inverse of
the largest value of the pseudo-inverse, in which 1 - c enters as eps / s^2 without cancellation.
"""

from __future__ import annotations

import numpy as np
import torch
from torch.nn import functional

from tests.oracle.numbers import Numbers, least, second_moment, worst
from tests.oracle.taps import Array

DIGITS = 1e-11  # where radial / sigma_max is above this, the dense SVD must agree to 1e-4


def of_jacobian(x: Array, kind: str, eps: float, gain: Array) -> Numbers:
    """The summary over tokens x (tokens, features) of a norm whose gain has no zero."""
    values = np.stack([_spectrum(token, kind, eps, gain) for token in x])
    last = x.shape[-1] - (1 if kind == "layernorm" else 0)  # values beyond are 0 by centring
    high, low = values[:, 0], values[:, last - 2]
    radial = _radial(x, kind, eps, gain)
    seen = radial > DIGITS * high
    np.testing.assert_allclose(values[seen, last - 1], radial[seen], rtol=1e-4)
    return {
        "sigma_max": worst(high),
        "sigma_min": least(low),
        "kappa": worst(high / low),
        "radial": worst(radial),
        "tokens": len(x),
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
    """With J = D A / s and w = A v: min |J v| / |v| = min |D w| / (s |A^+ w|), w in a basis Q.

    A = P - c z z', A^+ = P + (c / (1 - c)) z z' and D Q = O R give 1 / (s ||A^+ Q R^-1||).
    """
    basis = _basis(len(gain), kind)
    scaled = basis @ np.linalg.inv(np.linalg.qr(gain[:, None] * basis, mode="r"))
    centre = x.mean(-1, keepdims=True) if kind == "layernorm" else 0.0
    z = (x - centre) / np.linalg.norm(x - centre, axis=-1, keepdims=True)
    m2 = second_moment(x, kind)
    rank_one = m2 / eps  # c / (1 - c)
    inverse = [_largest(scaled, r, zh, zh @ scaled) for r, zh in zip(rank_one, z, strict=True)]
    return 1 / (np.sqrt(m2 + eps) * np.array(inverse))


def _basis(features: int, kind: str) -> Array:
    """An orthonormal basis of the inputs that the norm does not send to 0 at once."""
    if kind != "layernorm":
        return np.eye(features)
    ones = np.ones((features, 1))
    return np.linalg.qr(np.hstack([ones, np.eye(features)[:, 1:]]))[0][:, 1:]


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
