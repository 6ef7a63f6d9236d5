"""Iterated singular values and the Hutchinson estimate against dense decompositions."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from normdiag.numerics.frobenius_norm import estimate_frobenius_square
from normdiag.numerics.operators import LinearOperator, matrix_operator
from normdiag.numerics.singular_values import find_singular_range

TOKENS, WIDTH = 8, 96


def causal_block(scale: float) -> Callable[[Tensor], Tensor]:
    """A pre-norm block, attention then MLP, whose branches are multiplied by `scale`."""
    generator = torch.Generator().manual_seed(0)

    def weight(rows: int, columns: int) -> Tensor:
        drawn = torch.randn(rows, columns, generator=generator, dtype=torch.float64)
        return drawn / math.sqrt(columns)

    query, key, value, out = (weight(WIDTH, WIDTH) for _ in range(4))
    up, down = weight(4 * WIDTH, WIDTH), weight(WIDTH, 4 * WIDTH)
    future = torch.full((TOKENS, TOKENS), -math.inf, dtype=torch.float64).triu(1)

    def block(x: Tensor) -> Tensor:
        n = F.layer_norm(x, (WIDTH,))
        scores = (n @ query.T) @ (n @ key.T).T / math.sqrt(WIDTH) + future
        x = x + scale * (scores.softmax(-1) @ (n @ value.T) @ out.T)
        return x + scale * (F.gelu(F.layer_norm(x, (WIDTH,)) @ up.T) @ down.T)

    return block


@pytest.fixture(scope="module", params=[0.1, 0.3, 1.0])
def block(request: pytest.FixtureRequest) -> tuple[LinearOperator, Tensor]:
    """The block's Jacobian, as an operator and as all its singular values."""
    function = causal_block(request.param)
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(TOKENS, WIDTH, generator=generator, dtype=torch.float64)
    dense = torch.func.jacrev(function)(x).reshape(TOKENS * WIDTH, TOKENS * WIDTH)
    return matrix_operator(dense), torch.linalg.svdvals(dense)


def test_largest_value_after_twenty_steps(block: tuple[LinearOperator, Tensor]) -> None:
    """T21: sigma_max to 1e-6, and sigma_min from above."""
    operator, singular = block
    found = find_singular_range(operator, steps=20, tolerance=0)
    assert found.steps == 20
    assert found.sigma_max == pytest.approx(float(singular[0]), rel=1e-6)
    assert found.sigma_min >= float(singular[-1]) * (1 - 1e-9)


def test_it_stops_when_the_error_is_known_to_be_small(block: tuple[LinearOperator, Tensor]) -> None:
    operator, singular = block
    found = find_singular_range(operator, tolerance=1e-2)
    assert found.steps < 30
    assert -1e-12 <= float(singular[0]) - found.sigma_max <= found.sigma_max_error + 1e-12
    assert found.sigma_max_error <= 1e-2 * found.sigma_max


def test_mean_square_within_its_deviation(block: tuple[LinearOperator, Tensor]) -> None:
    """T20: |estimate / true - 1| < 4 of the deviation that the spectrum predicts."""
    operator, singular = block
    true = float(singular.square().sum())
    predicted = math.sqrt(2 * float(singular.pow(4).sum())) / true / math.sqrt(16)
    found = estimate_frobenius_square(operator, samples=16)
    assert abs(found.value / true - 1) < 4 * predicted
    assert found.deviation == pytest.approx(predicted * true, rel=0.6)


def with_spectrum(singular: Tensor, rows: int, seed: int) -> Tensor:
    """A random (rows, n) matrix with these singular values."""
    generator = torch.Generator().manual_seed(seed)
    n = len(singular)
    left, right = (torch.randn(r, n, generator=generator, dtype=torch.float64) for r in (rows, n))
    return torch.linalg.qr(left).Q @ torch.diag(singular) @ torch.linalg.qr(right).Q.T


def spectra(size: int, seed: int) -> dict[str, Tensor]:
    """Flat, decaying, clustered at the top, one that stands out, singular, all equal."""
    torch.manual_seed(seed)
    near = 1 + 1e-3 * torch.rand(size, dtype=torch.float64)
    return {
        "flat": torch.rand(size, dtype=torch.float64),
        "decades": 10 ** (-8 * torch.rand(size, dtype=torch.float64)),
        "cluster": near,
        "one far out": near.index_fill(0, torch.tensor(0), 50.0),
        "one just out": near.index_fill(0, torch.tensor(0), 1.01),
        "singular": torch.rand(size, dtype=torch.float64).index_fill(0, torch.tensor([0, 1]), 0.0),
        "equal": torch.full((size,), 0.7, dtype=torch.float64),
    }


@pytest.mark.parametrize("kind", list(spectra(2, 0)))
def test_the_stated_error_is_never_too_small(kind: str) -> None:
    """At every number of steps, from the first, for many matrices and starting vectors."""
    for seed in range(6):
        singular = spectra(60, seed)[kind]
        operator = matrix_operator(with_spectrum(singular, 60 + 5 * (seed % 3), seed))
        high, low = float(singular.max()), float(singular.min())
        for steps in (1, 2, 5, 13, 30, 60):
            found = find_singular_range(operator, steps=steps, tolerance=0, seed=seed)
            assert -1e-12 * high <= high - found.sigma_max <= found.sigma_max_error
            assert found.sigma_min >= low - 1e-12 * high
            if found.is_exact:
                assert found.sigma_max == pytest.approx(high, rel=1e-12)
                assert found.sigma_min == pytest.approx(low, abs=1e-12 * high)


def test_all_steps_make_both_ends_exact() -> None:
    singular = spectra(40, 3)["decades"]
    found = find_singular_range(
        matrix_operator(with_spectrum(singular, 50, 0)), steps=40, tolerance=0
    )
    assert found.is_exact
    assert found.sigma_min == pytest.approx(float(singular.min()), abs=1e-14)


@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 1000))
@settings(deadline=None, max_examples=60)
def test_small_matrices_of_any_shape(rows: int, columns: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    values = torch.randint(-1, 2, (rows, columns), generator=generator).double()
    singular = torch.linalg.svdvals(values)
    found = find_singular_range(matrix_operator(values), tolerance=0, seed=seed)
    assert found.is_exact
    assert found.sigma_max == pytest.approx(float(singular[0]), abs=1e-12)
    assert found.sigma_min == pytest.approx(float(singular[-1]), abs=1e-7)


def test_nothing_comes_of_a_zero_map() -> None:
    found = find_singular_range(matrix_operator(torch.zeros(5, 4)))
    assert (found.sigma_max, found.sigma_min, found.is_exact, found.steps) == (0.0, 0.0, True, 1)


def test_single_precision_states_its_rounding() -> None:
    singular = spectra(60, 5)["flat"]
    operator = matrix_operator(with_spectrum(singular, 60, 5).float())
    found = find_singular_range(operator, steps=60, tolerance=0)
    assert abs(float(singular.max()) - found.sigma_max) <= found.sigma_max_error
    assert 1e-7 < found.sigma_max_error < 1e-4


@pytest.mark.parametrize("steps", [4, 12, 30])
def test_zeros_are_left_out_and_the_smallest_stays_an_upper_bound(steps: int) -> None:
    singular = torch.linspace(1.0, 3.0, 30, dtype=torch.float64)
    singular[:2] = torch.tensor([0.0, 1e-3])
    operator = matrix_operator(with_spectrum(singular, 30, 1))
    found = find_singular_range(operator, steps=steps, tolerance=0, zeros=2)
    least = float(singular[2])
    assert least - 1e-12 <= found.sigma_min <= 3.0
    if steps == 30:
        assert found.sigma_min == pytest.approx(least, rel=1e-6)
