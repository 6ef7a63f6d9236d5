"""What a report must say of the arrays that were observed, from the definitions, in float64 numpy.

Each function returns the same keys as the JSON report, so a comparison misses none.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.oracle.taps import Array
from tests.oracle.tokens import Tokens

Numbers = dict[str, Any]


def rms(values: Array) -> float:
    """Root mean square over tokens and features."""
    return np.sqrt(np.square(values).mean())


def typical(values: Array) -> Numbers:
    """Mean, median and maximum over tokens."""
    return {"mean": values.mean(), "median": np.median(values), "max": values.max()}


def median_max(values: Array) -> Numbers:
    """Median and maximum over tokens."""
    return {"median": np.median(values), "max": values.max()}


def least(values: Array) -> Numbers:
    """Median and minimum over tokens."""
    return {"median": np.median(values), "min": values.min()}


def quantiles(values: Array) -> Numbers:
    """Five percentiles over tokens, or of singular values."""
    shares = (5, 25, 50, 75, 95)
    return {
        f"p{share}": value
        for share, value in zip(shares, np.percentile(values, shares), strict=True)
    }


def second_moment(x: Array, kind: str) -> Array:
    """m2 per token: what epsilon is added to."""
    centre = x.mean(-1, keepdims=True) if kind == "layernorm" else 0.0
    return np.square(x - centre).mean(-1)


def of_norm(x: Array, padding: Array, kind: str, eps: float, channels: int) -> Numbers:
    """The input statistics of one norm without its Jacobian; x, padding (tokens, features)."""
    features, squares = x.shape[-1], np.square(x).sum(-1)
    m2 = second_moment(x, kind)
    shares = np.median(np.square(x) / squares[:, None], axis=0)
    return {
        "tokens": len(x),
        "input_mean": x.mean(),
        "input_var": {
            "min": m2.min(),
            "median": np.median(m2),
            "p95": np.percentile(m2, 95),
            "max": m2.max(),
        },
        "eps_share": median_max(eps / (m2 + eps)),
        "amplification": {**median_max((m2 + eps) ** -0.5), "bound": eps**-0.5},
        "mean_energy": (features * np.square(x.mean(-1)) / squares).mean(),
        "offset_share": np.square(x.mean(0)).sum() / squares.mean(),
        "max_abs": np.abs(x).max(),
        "top_channels": list(np.argsort(-np.abs(x).max(0), kind="stable")[:channels]),
        "channel_share": shares.max(),
        "dominant_channel": shares.argmax(),
        "constant": int((1e6 * m2 <= eps).sum()),
        "constant_without_input": 0,
        "constant_indices": [],
        "eps_dominated": int((eps / (m2 + eps) > 0.5).sum()),
        "padded_constant": int((1e6 * second_moment(padding, kind) <= eps).sum()),
        "quantiles": {"input_var": quantiles(m2), "eps_share": quantiles(eps / (m2 + eps))},
    }


def of_gain(gain: Array) -> Numbers:
    """A gain vector."""
    sizes = np.abs(gain)
    return {
        "rms": rms(gain),
        "min_abs": np.abs(gain).min(),
        "max_abs": np.abs(gain).max(),
        "zeros": int((gain == 0).sum()),
        "nonfinite": int((~np.isfinite(gain)).sum()),
        "negatives": int((gain < 0).sum()),
        "mean": gain.mean(),
        "median_abs": np.median(sizes),
        "max_channel": sizes.argmax(),
        "dead": int((sizes <= 1e-6 * np.median(sizes[sizes > 0])).sum()),
        "offset": 0.0,
        "histogram": {
            "min": gain.min(),
            "max": gain.max(),
            "counts": np.histogram(gain, 32, (gain.min(), gain.max()))[0].tolist(),
        },
    }


def of_add(skip: Tokens, branch: Tokens) -> Numbers:
    """One residual add y = x + u."""
    x, u = skip.values, branch.values
    y = x + u
    x_norm, u_norm, y_norm = (np.linalg.norm(v, axis=-1) for v in (x, u, y))
    token, channel = np.unravel_index(np.abs(y).argmax(), y.shape)
    centred = y - y.mean(-1, keepdims=True)
    return {
        "tokens": len(y),
        "rms": {"skip": rms(x), "branch": rms(u), "out": rms(y)},
        "skip_max_abs": np.abs(x).max(),
        "branch_max_abs": np.abs(u).max(),
        "skip_dtype": "float32",
        "branch_dtype": "float32",
        "nonfinite": 0,
        "padded_nonfinite": 0,
        "nonfinite_elements": 0,
        "skip_norm": typical(x_norm),
        "branch_norm": typical(u_norm),
        "out_norm": typical(y_norm),
        "update_ratio": typical(u_norm / x_norm),
        "cosine": typical(_cosine(x, u)),
        "angle_deg": typical(_angle(x, y)),
        "max_abs": np.abs(y).max(),
        "max_channel": channel,
        "max_token": {"sequence": skip.sequence[token], "position": skip.position[token]},
        "median_abs": np.median(np.median(np.abs(y), axis=-1)),
        "token_cosine": _token_cosine(Tokens(y, skip.sequence, skip.position)),
        "out_ratio": typical(y_norm / x_norm),
        "kurtosis": typical((centred**4).mean(-1) / np.square(np.square(centred).mean(-1))),
        "first_norm": y_norm[skip.leads].mean(),
        "quantiles": {
            "out_norm": quantiles(y_norm),
            "update_ratio": quantiles(u_norm / x_norm),
            "cosine": quantiles(_cosine(x, u)),
        },
    }


def _cosine(a: Array, b: Array) -> Array:
    return (a * b).sum(-1) / (np.linalg.norm(a, axis=-1) * np.linalg.norm(b, axis=-1))


def _angle(a: Array, b: Array) -> Array:
    """In degrees, by the half-angle form, which is exact for small angles too (Kahan)."""
    a = a / np.linalg.norm(a, axis=-1, keepdims=True)
    b = b / np.linalg.norm(b, axis=-1, keepdims=True)
    halves = np.linalg.norm(a - b, axis=-1), np.linalg.norm(a + b, axis=-1)
    return np.degrees(2 * np.arctan2(*halves))


def _token_cosine(y: Tokens) -> float | None:
    """Over all pairs of different tokens of one sequence, all sequences pooled."""
    pairs = []
    for values in y.sequences():
        unit = values / np.linalg.norm(values, axis=-1, keepdims=True)
        pairs.append((unit @ unit.T)[np.triu_indices(len(unit), 1)])
    pooled = np.concatenate(pairs)
    return pooled.mean() if len(pooled) else None
