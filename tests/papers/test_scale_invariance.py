"""T22: a weight that feeds a norm is free of scale (van Laarhoven 2017, 1706.05350).

f(lambda W) = f(W), so dL/dW goes as 1/lambda and is orthogonal to W; epsilon spoils both where
it is not small beside the variance.
"""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

H = 64
DRAWS = torch.Generator().manual_seed(0)
WEIGHT, X, G = (torch.randn(n, H, generator=DRAWS, dtype=torch.float64) for n in (H, 32, 32))


def gradient(times: float, eps: float) -> tuple[Tensor, Tensor]:
    """times W, and the gradient there of a linear function of the norm's output."""
    weight = (times * WEIGHT / H**0.5).requires_grad_()
    loss = (F.layer_norm(X @ weight.T, (H,), eps=eps) * G).sum()
    (found,) = torch.autograd.grad(loss, weight)
    return weight.detach(), found


def cosine(a: Tensor, b: Tensor) -> float:
    return float((a * b).sum() / a.norm() / b.norm())


@pytest.mark.parametrize("times", [0.01, 10.0])
def test_t22_without_epsilon_it_is_exact(times: float) -> None:
    """Gradient ratio 1/lambda (1e-12), cos(g, W) below 1e-12."""
    weight, found = gradient(times, eps=0.0)
    _, at_one = gradient(1.0, eps=0.0)
    torch.testing.assert_close(
        times * found, at_one, rtol=0, atol=1e-12 * float(at_one.abs().max())
    )
    assert abs(cosine(found, weight)) < 1e-12


def test_t22_epsilon_spoils_it_where_the_variance_is_small() -> None:
    """lambda |g(lambda)| / |g(1)| = .95 at lambda = .01: a variance of 1e-4 beside eps = 1e-5."""
    weight, small = gradient(0.01, eps=1e-5)
    _, at_one = gradient(1.0, eps=1e-5)
    assert 0.01 * float(small.norm() / at_one.norm()) == pytest.approx(0.95, abs=0.01)
    assert abs(cosine(small, weight)) > 1e-3
