"""The oracle of the Jacobian against 40-digit arithmetic: who judges must be judged."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

from tests.oracle.jacobians import of_jacobian


def exact(x, kind, eps, gain):
    """Singular values of the Jacobian of one token, from its definition, in mpmath."""
    size = len(x)
    with mpmath.workdps(240):
        x, gain, eps = mpmath.matrix(list(x)), list(map(mpmath.mpf, gain)), mpmath.mpf(eps)
        centre = sum(x) / size if kind == "layernorm" else mpmath.mpf(0)
        z = [v - centre for v in x]
        s = mpmath.sqrt(sum(v * v for v in z) / size + eps)
        mean = mpmath.mpf(1) / size if kind == "layernorm" else mpmath.mpf(0)
        jacobian = mpmath.matrix(size, size)
        for i in range(size):
            for j in range(size):
                identity = mpmath.mpf(i == j)
                jacobian[i, j] = gain[i] * ((identity - mean) / s - z[i] * z[j] / (size * s**3))
        squares = mpmath.eigsy(jacobian.T * jacobian, eigvals_only=True)
        return sorted((mpmath.sqrt(abs(v)) for v in squares), reverse=True)


@pytest.mark.parametrize("kind", ["layernorm", "rmsnorm"])
@pytest.mark.parametrize("eps", [1e-12, 1e-5, 3.0])
@pytest.mark.parametrize("tiny", [[], [1e-6], [5e-33, 6e-33, 1e-9]])
def test_equals_exact_arithmetic(kind, eps, tiny):
    rng = np.random.default_rng(7)
    x = rng.normal(0.3, 1.5, (3, 9))
    gain = np.append(rng.normal(1.0, 0.6, 9 - len(tiny)), tiny)
    spectra = [exact(token, kind, eps, gain) for token in x]
    last = 8 if kind == "layernorm" else 9
    numbers = of_jacobian(x, kind, eps, gain)
    high, low = [float(s[0]) for s in spectra], [float(s[last - 2]) for s in spectra]
    radial = [float(s[last - 1]) for s in spectra]
    expected = {
        "sigma_max": {"median": np.median(high), "max": max(high)},
        "sigma_min": {"median": np.median(low), "min": min(low)},
        "kappa": {
            "median": np.median(np.divide(high, low)),
            "max": max(np.divide(high, low)),
        },
        "radial": {"median": np.median(radial), "max": max(radial)},
    }
    if (
        min(abs(gain)) < 1e-30
    ):  # as in MiniLM's last norm: a dense SVD has no digit of the others left
        expected = {"radial": expected["radial"]}
    for quantity, values in expected.items():
        for key, value in values.items():
            assert numbers[quantity][key] == pytest.approx(value, rel=1e-10), (quantity, key)
