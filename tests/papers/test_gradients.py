"""The gradient of the last layer's W_2 against depth: T7 and the other half of T12.

Xiong et al. 2020 (2002.04745), theorem 1: O(d sqrt(ln d)) in post-norm, whatever L is, and
O(d sqrt(ln d / L)) in pre-norm. KEEL (2601.19895).
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from tests.papers.stacks import Numbers, mean_squares, slope, top_gradient

WIDTH, SEEDS, SHAPE = 256, 3, (8, 16)
FEW = (6, 12, 24)
ALL = (6, 8, 10, 12, 16, 24, 32, 48, 64)
DEPTHS = [FEW, pytest.param(ALL, marks=pytest.mark.slow)]


@cache
def gradients(placement: str, depths: tuple[int, ...]) -> Numbers:
    each = [[top_gradient(placement, n, WIDTH, s, SHAPE) for s in range(SEEDS)] for n in depths]
    return np.array(each).mean(1)


@pytest.mark.parametrize("depths", DEPTHS, ids=len)
def test_t7_post_norm_does_not_depend_on_depth(depths: tuple[int, ...]) -> None:
    assert slope(depths, gradients("post", depths)) == pytest.approx(0, abs=0.08)


@pytest.mark.parametrize("depths", DEPTHS, ids=len)
def test_t7_pre_norm_falls_as_the_stream_grows(depths: tuple[int, ...]) -> None:
    """Slope -.53 (.08); |g| sqrt(q_L) is constant (8 %); pre / post is sqrt(1.5 / q_L) (12 %)."""
    pre, post = gradients("pre", depths), gradients("post", depths)
    q = [mean_squares("pre", n, WIDTH, SEEDS, SHAPE)[:, -1].mean() for n in depths]
    assert slope(depths, pre) == pytest.approx(-0.53, abs=0.08)
    level = pre * np.sqrt(q)
    assert level / level.mean() == pytest.approx(1.0, abs=0.08)
    assert pre / post == pytest.approx(np.sqrt(1.5 / np.array(q)), rel=0.12)


def test_t12_keel_falls_as_one_over_depth() -> None:
    depths = (6, 12, 24, 48)
    top = [np.mean([top_gradient("keel", n, 192, s, (8, 8)) for s in range(4)]) for n in depths]
    assert slope(depths, np.array(top)) == pytest.approx(-1.0, abs=0.05)
