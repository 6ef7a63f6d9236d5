"""Norms of few features, with zero gains, without epsilon or variance, and inputs that are not."""

from __future__ import annotations

import math

import pytest
import torch

from normdiag.errors import NormdiagError
from normdiag.numerics.norm_jacobian import SingularExtremes, prepare_norm_spectrum


def one(x: list[float], gain: list[float], eps: float, kind: str) -> SingularExtremes:
    norm = prepare_norm_spectrum(torch.tensor(gain), kind=kind, features=len(gain), eps=eps)
    return norm.singular_extremes(torch.tensor([x], dtype=torch.float64))


@pytest.mark.parametrize(
    ("kind", "gain", "x", "eps", "rank"),
    [
        ("layernorm", [2.0], [5.0], 1e-5, 0),
        ("rmsnorm", [2.0], [5.0], 1e-5, 1),
        ("rmsnorm", [2.0], [5.0], 0.0, 0),
        ("layernorm", [1, 2.0], [1, -1.0], 1e-5, 1),
        ("layernorm", [1, 2.0], [1, -1.0], 0.0, 0),
        ("layernorm", [1, 2, 3, 4.0], [1, -1, 2, 0.5], 1e-5, 3),
        ("layernorm", [1, 2, 3, 4.0], [1, -1, 2, 0.5], 0.0, 2),
        ("layernorm", [0, 2, 3, 4.0], [1, -1, 2, 0.5], 1e-5, 3),
        ("layernorm", [0, 2, 3, 4.0], [1, -1, 2, 0.5], 0.0, 2),
        ("layernorm", [0, 0, 3, 4.0], [1, -1, 2, 0.5], 1e-5, 2),
        ("layernorm", [0, 0, 3, 4.0], [1, -1, 2, 0.5], 0.0, 2),
        ("layernorm", [0, 0, 3, 4.0], [1, 1, 2, 0.5], 0.0, 1),
        ("layernorm", [0, 0, 0, 4.0], [1, -1, 2, 0.5], 1e-5, 1),
        ("rmsnorm", [1, 2, 3.0], [1, -1, 2.0], 0.0, 2),
        ("rmsnorm", [0, 2, 3.0], [1, -1, 2.0], 0.0, 2),
        ("rmsnorm", [0, 2, 3.0], [0, -1, 2.0], 0.0, 1),
        ("rmsnorm", [0, 0, 3.0], [1, -1, 2.0], 1e-5, 1),
        ("rmsnorm", [0, 0, 0.0], [1, -1, 2.0], 1e-5, 0),
    ],
)
def test_rank(kind: str, gain: list[float], x: list[float], eps: float, rank: int) -> None:
    """Zero gains and eps = 0 each cost directions, but not always different ones."""
    assert float(one(x, gain, eps, kind).rank) == rank


def test_two_features_have_no_kept_direction() -> None:
    """LayerNorm of two features is a sign function: its one slope is the radial one."""
    found = one([3.0, -1.0], [1.0, 2.0], 1e-5, "layernorm")
    s = math.sqrt(4 + 1e-5)
    assert found.sigma_min.isnan().all() and found.kappa.isnan().all()
    assert float(found.radial) == float(found.sigma_max)
    slope = 1e-5 / s**3 * math.sqrt((1 + 4) / 2)
    assert float(found.radial) == pytest.approx(slope, rel=1e-12)


def test_one_feature() -> None:
    found = one([3.0], [2.0], 1e-5, "rmsnorm")
    assert float(found.radial) == pytest.approx(2 * 1e-5 / (9 + 1e-5) ** 1.5, rel=1e-12)
    assert found.sigma_min.isnan().all()
    removed = one([3.0], [2.0], 1e-5, "layernorm")
    assert float(removed.sigma_max) == 0 and removed.radial.isnan().all()


def test_kappa_is_infinite_where_a_kept_direction_is_lost() -> None:
    assert float(one([1, 2, 4, 3.0], [0, 0, 1, 2.0], 1e-5, "rmsnorm").kappa) == math.inf
    assert float(one([1, 2, 4, 3.0], [0, 1, 1, 2.0], 1e-5, "rmsnorm").kappa) < math.inf
    assert float(one([1, 2, 4, 3.0], [0, 0, 0, 2.0], 1e-5, "layernorm").kappa) == math.inf
    assert float(one([1, 2, 4, 3.0], [0, 0, 1, 2.0], 1e-5, "layernorm").kappa) < math.inf
    assert float(one([1, 2, 4, 3.0], [0, 0, 0, 0.0], 1e-5, "layernorm").kappa) == math.inf


def test_a_norm_without_variance_is_linear() -> None:
    """c = 0: RMSNorm is diag(gamma)/sqrt(eps); LayerNorm loses the mean and nothing else."""
    gain = [1.0, 2.0, 3.0]
    found = one([0.0, 0.0, 0.0], gain, 1e-4, "rmsnorm")
    assert [float(found.sigma_max), float(found.sigma_min), float(found.radial)] == [
        pytest.approx(100 * g, rel=1e-12) for g in (3, 2, 1)
    ]
    centred = one([3.7, 3.7, 3.7], gain, 1e-4, "layernorm")
    matrix = 100 * torch.diag(torch.tensor(gain).double()) @ (torch.eye(3).double() - 1 / 3)
    largest, radial, _ = torch.linalg.svdvals(matrix).tolist()
    assert float(centred.sigma_max) == pytest.approx(largest, rel=1e-12)
    assert float(centred.radial) == pytest.approx(radial, rel=1e-12)


def test_what_is_undefined_is_nan_and_alone() -> None:
    x = torch.tensor([[1.0, math.nan, 2.0], [math.inf, 0.0, 1.0], [0.0, 0.0, 0.0], [1.0, 2.0, 3.0]])
    found = prepare_norm_spectrum(
        torch.tensor([1.0, 2.0, 3.0]), kind="rmsnorm", features=3, eps=0.0
    ).singular_extremes(x)
    for name in ("sigma_max", "sigma_min", "kappa", "radial", "rank", "frobenius"):
        assert getattr(found, name).isnan().tolist() == [True, True, True, False]
    broken = torch.tensor([1.0, math.inf, 3.0])
    lost = prepare_norm_spectrum(broken, kind="layernorm", features=3, eps=1e-5).singular_extremes(
        x
    )
    assert lost.sigma_max.isnan().all() and lost.rank.isnan().all()


def test_any_split_and_dtype_gives_the_same_values() -> None:
    torch.manual_seed(0)
    gain, x = torch.randn(96).bfloat16(), torch.randn(700, 96).bfloat16()
    norm = prepare_norm_spectrum(gain, kind="layernorm", features=96, eps=1e-6)
    whole = norm.singular_extremes(x)
    parts = SingularExtremes.concatenate_tokens(
        [norm.singular_extremes(part.float()) for part in x.split(9)]
    )
    wide = prepare_norm_spectrum(
        gain.double(), kind="layernorm", features=96, eps=1e-6
    ).singular_extremes(x.double())
    for name in ("sigma_max", "sigma_min", "radial", "frobenius"):
        for other in (parts, wide):
            torch.testing.assert_close(
                getattr(whole, name), getattr(other, name), rtol=1e-13, atol=0.0
            )
    assert len(norm.singular_extremes(x[:0]).kappa) == 0


def test_no_gain_is_a_gain_of_one() -> None:
    x = torch.randn(3, 8, generator=torch.Generator().manual_seed(0))
    without = prepare_norm_spectrum(None, kind="rmsnorm", features=8, eps=1e-6).singular_extremes(x)
    ones = prepare_norm_spectrum(
        torch.ones(8), kind="rmsnorm", features=8, eps=1e-6
    ).singular_extremes(x)
    assert without.sigma_max.equal(ones.sigma_max) and without.radial.equal(ones.radial)


def test_sizes_that_do_not_fit_are_named() -> None:
    with pytest.raises(NormdiagError, match=r"over 4 features has a gain of shape \(3,\)"):
        prepare_norm_spectrum(torch.ones(3), kind="rmsnorm", features=4, eps=1e-6)
    with pytest.raises(NormdiagError, match=r"epsilon is -1"):
        prepare_norm_spectrum(None, kind="rmsnorm", features=4, eps=-1.0)
    with pytest.raises(NormdiagError, match=r"inputs of shape \(2, 3\)"):
        prepare_norm_spectrum(None, kind="rmsnorm", features=4, eps=1e-6).singular_extremes(
            torch.ones(2, 3)
        )
