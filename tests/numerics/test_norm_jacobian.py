"""The norm Jacobian against oracles that share no code with it.

Dense: torch's own layer_norm and rms_norm, differentiated by autograd in float64, then a full SVD.
Exact: the definition of J in 90-digit arithmetic, where even the suppressed values have digits.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator

import mpmath
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from normdiag.numerics.norm_jacobian import prepare_norm_spectrum

KINDS = ("layernorm", "rmsnorm")
EPSILONS = (0.0, 1e-12, 1e-5, 1e-2)
SIZES = (*range(1, 25), 31, 32, 33, 48, 63, 64)
REMOVED = {"layernorm": 2, "rmsnorm": 1}


def gains(size: int, seed: int) -> Iterator[Tensor]:
    """Every kind of gain that a checkpoint has, and every degenerate one."""
    torch.manual_seed(seed)
    noise = torch.randn(size, dtype=torch.float64)
    sign = torch.where(torch.randn(size, dtype=torch.float64) < 0, -1.0, 1.0).double()
    yield torch.ones(size, dtype=torch.float64)
    yield -0.37 * sign
    yield noise
    yield torch.exp(0.3 * noise)
    for zeros in (1, 2, 3):
        yield noise.abs().add(0.1).index_fill(0, torch.randperm(size)[:zeros], 0.0)
    yield torch.zeros(size, dtype=torch.float64)
    yield torch.eye(size, dtype=torch.float64)[size // 2]
    yield torch.tensor([0.5, 2.0, -3.0], dtype=torch.float64)[torch.randint(3, (size,))]
    yield torch.arange(1, size + 1, dtype=torch.float64)
    yield sign * 10 ** (12 * torch.rand(size, dtype=torch.float64) - 6)
    yield 1 + 2.0**-52 * torch.randint(4, (size,)).double()
    yield torch.full((size,), 0.05, dtype=torch.float64).index_fill(0, torch.tensor(0), 300.0)
    yield 1e-30 * noise
    yield 1e30 * noise


def inputs(size: int, seed: int) -> Tensor:
    """One row per kind of input: ordinary, offset, tiny, huge, constant, sparse, massive."""
    torch.manual_seed(1000 + seed)
    noise = torch.randn(size, dtype=torch.float64)
    basis = torch.eye(size, dtype=torch.float64)
    step = torch.arange(size, dtype=torch.float64)
    rows = [
        noise,
        50 + noise,
        1e-8 * noise,
        1e-4 * noise,
        1e8 * noise,
        0 * noise,
        torch.full_like(noise, 3.7),
        100 * basis[size // 3],
        noise + 1e4 * basis[0],
        noise * (torch.rand(size) > 0.6),
        step,
        1 - 2 * (step % 2),
    ]
    return torch.stack(rows)


def dense_jacobian(x: Tensor, gain: Tensor, eps: float, kind: str) -> Tensor:
    """dy/dx for each row of x, (N, H, H), by autograd through torch's own norm."""
    rows = x.clone().requires_grad_()
    norm = F.layer_norm if kind == "layernorm" else F.rms_norm
    y = norm(rows, x.shape[1:], gain, eps=eps)
    each = torch.eye(x.shape[1], dtype=x.dtype)[:, None, :].expand(-1, len(x), -1)
    (columns,) = torch.autograd.grad(y, rows, each, is_grads_batched=True)
    return columns.transpose(0, 1)


def variance(x: Tensor, kind: str) -> Tensor:
    """m2, from exact differences."""
    if kind == "layernorm":
        x = x - x[:, :1]
        x = x - x.mean(1, keepdim=True)
    return x.square().mean(1)


def expected_extremes(singular: Tensor, kind: str) -> dict[str, Tensor | None]:
    """What design 6 asks for, from singular values in descending order, (N, H)."""
    features, removed = singular.shape[1], REMOVED[kind]
    return {
        "sigma_max": singular[:, 0],
        "sigma_min": singular[:, features - removed - 1] if features > removed else None,
        "radial": singular[:, features - removed] if features >= removed else None,
        "frobenius": singular.square().sum(1).sqrt(),
    }


@pytest.mark.parametrize("kind", KINDS)
def test_equals_the_dense_svd_of_the_autograd_jacobian(kind: str) -> None:
    """Every gain and input at every size; epsilon goes round."""
    cases, worst = 0, 0.0
    for size in SIZES:
        x = inputs(size, size)
        for number, gain in enumerate(gains(size, size)):
            eps = EPSILONS[(number + size) % len(EPSILONS)]
            found = prepare_norm_spectrum(
                gain, kind=kind, features=size, eps=eps
            ).singular_extremes(x)
            defined = variance(x, kind) + eps > 0
            assert found.sigma_max.isnan().equal(~defined)
            singular = torch.linalg.svdvals(dense_jacobian(x[defined], gain, eps, kind))
            unit = (variance(x[defined], kind) + eps).rsqrt() * (float(gain.abs().max()) or 1.0)
            for name, value in expected_extremes(singular, kind).items():
                got = getattr(found, name)
                if value is None:
                    assert got.isnan().all()
                else:
                    worst = max([worst, *((got[defined] - value).abs() / unit).tolist()])
            cases += int(defined.sum())
    assert cases >= 5000
    assert worst <= 1e-12


def exact_spectrum(x: list[float], gain: list[float], eps: float, kind: str) -> list[mpmath.mpf]:
    """All singular values of J by its definition, descending, to some 45 digits of the largest."""
    size, mp = len(x), mpmath.mpf
    with mpmath.workdps(90):
        mean = sum(map(mp, x)) / size if kind == "layernorm" else mp(0)
        z = [mp(v) - mean for v in x]
        square = sum(v * v for v in z) / size + mp(eps)
        projector = mpmath.matrix(size, size)
        for i in range(size):
            for j in range(size):
                ones = mp(1) / size if kind == "layernorm" else mp(0)
                projector[i, j] = (i == j) - ones - z[i] * z[j] / (size * square)
        jacobian = mpmath.diag([mp(g) / mpmath.sqrt(square) for g in gain]) * projector
        values = mpmath.eigsy(jacobian * jacobian.T, eigvals_only=True)
        return sorted((mpmath.sqrt(abs(v)) for v in values), reverse=True)


def adversarial(rng: random.Random, size: int) -> list[float]:
    """Numbers over 12 decades, repeated, a few ulp apart, sparse, nearly one-hot."""
    kind = rng.choice(["normal", "decades", "repeated", "ulps", "sparse", "one-hot"])
    draw = {
        "normal": lambda: rng.gauss(0, 1),
        "decades": lambda: rng.choice([-1, 1]) * 10 ** rng.uniform(-6, 6),
        "repeated": lambda: rng.choice([0.0, 1.0, -1.0, 2.0, 0.5]),
        "ulps": lambda: 1 + rng.choice([0, 1, 2, 3]) * 2.0 ** -rng.choice([52, 40, 20]),
        "sparse": lambda: 0.0 if rng.random() < 0.4 else rng.gauss(0, 1),
        "one-hot": lambda: rng.gauss(0, 1) * (1 if rng.random() < 0.3 else 1e-9),
    }[kind]
    return [draw() for _ in range(size)]


@pytest.mark.parametrize("kind", KINDS)
def test_every_value_is_exact_relative_to_itself(kind: str) -> None:
    """To 1e-12 of itself, however far below the largest, where a dense SVD has no digit left."""
    rng = random.Random(KINDS.index(kind))
    for _ in range(500):
        size = rng.choice([1, 2, 3, 4, 5, 6])
        x = [v * 10 ** rng.choice([0, 0, -6, 6]) for v in adversarial(rng, size)]
        gain, eps = adversarial(rng, size), rng.choice(EPSILONS)
        rows = torch.tensor([x], dtype=torch.float64)
        if eps == 0 and float(variance(rows, kind)) == 0:
            continue
        norm = prepare_norm_spectrum(
            torch.tensor(gain, dtype=torch.float64), kind=kind, features=size, eps=eps
        )
        found = norm.singular_extremes(rows)
        values = exact_spectrum(x, gain, eps, kind)
        noise = 1e-38 * max(float(values[0]), 1e-30)
        wanted = expected_extremes(
            torch.tensor([[float(v) for v in values]], dtype=torch.float64), kind
        )
        for name, value in wanted.items():
            if value is not None:
                got = float(getattr(found, name))
                assert got == pytest.approx(float(value), rel=1e-12, abs=noise), (
                    name,
                    x,
                    gain,
                    eps,
                )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [3, 17, 768])
@pytest.mark.parametrize("level", [1.0, -0.37])
def test_closed_form_of_a_constant_gain(kind: str, size: int, level: float) -> None:
    """T1: |g|/s on every kept direction, |g| eps/s^3 on the radial one, 0 on the mean."""
    torch.manual_seed(size)
    x, eps = torch.randn(5, size, dtype=torch.float64), 1e-5
    gain = torch.full((size,), level, dtype=torch.float64)
    found = prepare_norm_spectrum(gain, kind=kind, features=size, eps=eps).singular_extremes(x)
    s = (variance(x, kind) + eps).sqrt()
    kept = size - REMOVED[kind]
    exactly = {"rtol": 1e-12, "atol": 0.0}
    torch.testing.assert_close(found.sigma_max, abs(level) / s, **exactly)
    torch.testing.assert_close(found.sigma_min, abs(level) / s, **exactly)
    torch.testing.assert_close(found.kappa, torch.ones_like(s), **exactly)
    torch.testing.assert_close(found.radial, abs(level) * eps / s**3, **exactly)
    energy = level**2 * (kept + (eps / s**2) ** 2) / s**2
    torch.testing.assert_close(found.frobenius, energy.sqrt(), **exactly)
    assert (found.rank == kept + 1).all()


@pytest.mark.parametrize("kind", KINDS)
def test_general_path_joins_the_closed_form(kind: str) -> None:
    """One gain an ulp away from the others leaves the closed form but not its values."""
    x = torch.randn(4, 33, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    level = torch.ones(33, dtype=torch.float64)
    nearly = level.index_fill(0, torch.tensor(7), 1 + 2.0**-52)
    closed = prepare_norm_spectrum(level, kind=kind, features=33, eps=1e-5).singular_extremes(x)
    general = prepare_norm_spectrum(nearly, kind=kind, features=33, eps=1e-5).singular_extremes(x)
    for name in ("sigma_max", "sigma_min", "kappa", "radial", "rank", "frobenius"):
        torch.testing.assert_close(
            getattr(general, name), getattr(closed, name), rtol=1e-12, atol=0.0
        )


@pytest.mark.parametrize("kind", KINDS)
def test_radial_value_against_its_bracket(kind: str) -> None:
    """T4: with p the first pole, 1/lam lies in [max(S0/delta, 1/p), S0/delta + 1/p]."""
    torch.manual_seed(3)
    eps, size = 1e-5, 4096
    gain = torch.exp(0.3 * torch.randn(size, dtype=torch.float64))
    x = torch.randn(3, size, dtype=torch.float64)
    found = prepare_norm_spectrum(gain, kind=kind, features=size, eps=eps).singular_extremes(x)
    z = x - x.mean(1, keepdim=True) if kind == "layernorm" else x
    s = (z.square().mean(1) + eps).sqrt()
    unit = z / z.norm(dim=1, keepdim=True)
    if kind == "layernorm":
        unit = unit - (unit / gain**2).sum(1, keepdim=True) / (1 / gain**2).sum()
    suppressed = eps / s**3 / (unit.square() / gain**2).sum(1).sqrt()
    torch.testing.assert_close(found.radial, suppressed, rtol=1e-9, atol=0.0)


FEATURES = st.integers(3, 12)
NUMBERS = st.floats(-1e6, 1e6, allow_subnormal=False)


@st.composite
def norms(draw: st.DrawFn) -> tuple[list[float], list[float], float, str]:
    size = draw(FEATURES)
    vector = st.lists(NUMBERS, min_size=size, max_size=size)
    return draw(vector), draw(vector), draw(st.floats(1e-12, 1.0)), draw(st.sampled_from(KINDS))


@given(norms())
@settings(max_examples=300, deadline=None)
def test_values_interlace_with_the_gains(case: tuple[list[float], list[float], float, str]) -> None:
    """T3: taking r rank-one terms off moves each value down past at most r gains."""
    x, gain, eps, kind = case
    rows = torch.tensor([x], dtype=torch.float64)
    norm = prepare_norm_spectrum(
        torch.tensor(gain, dtype=torch.float64), kind=kind, features=len(x), eps=eps
    )
    found = norm.singular_extremes(rows)
    s = float((variance(rows, kind) + eps).sqrt())
    sizes, removed = sorted(map(abs, gain)), REMOVED[kind]
    slack = 1e-12 * sizes[-1]
    assert sizes[-1 - removed] - slack <= float(found.sigma_max) * s <= sizes[-1] + slack
    assert sizes[0] - slack <= float(found.sigma_min) * s <= sizes[removed] + slack
    assert 0 <= float(found.radial) * s <= sizes[removed - 1] + slack
    if sizes[0] > 1e-6 * sizes[-1]:
        assert float(found.kappa) <= sizes[-1] / sizes[0] * (1 + 1e-12)
    largest, total = float(found.sigma_max) * s, float(found.frobenius) * s
    assert largest - slack <= total <= largest * math.sqrt(float(found.rank)) + slack
