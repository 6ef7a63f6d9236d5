"""GroupNorm's Jacobian per group against autograd through torch's own and a dense SVD."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from normdiag.errors import NormdiagError
from normdiag.numerics.group_norm_jacobian import prepare_group_spectrum


def group_spectra(x: Tensor, gain: Tensor, groups: int, eps: float) -> Tensor:
    """Singular values of each diagonal block of the full Jacobian, (G, n), descending."""

    def norm(flat: Tensor) -> Tensor:
        return torch.group_norm(flat.view(1, *x.shape), groups, gain, eps=eps).flatten()

    full = torch.autograd.functional.jacobian(norm, x.flatten())
    size = x.numel() // groups
    blocks = full.view(groups, size, groups, size)
    return torch.stack([torch.linalg.svdvals(blocks[k, :, k]) for k in range(groups)])


@pytest.mark.parametrize("positions", [(), (5,), (2, 3)])
@pytest.mark.parametrize("groups", [1, 2, 3, 6])
def test_equals_the_dense_svd_of_each_group(groups: int, positions: tuple[int, ...]) -> None:
    torch.manual_seed(groups)
    gain = torch.tensor([1.5, 1.5, 0.0, -2.0, 0.3, 0.0], dtype=torch.float64)
    x = torch.randn(3, 6, *positions, dtype=torch.float64)
    eps, count = 1e-3, x[0, 0].numel()
    size = 6 // groups * count
    norm = prepare_group_spectrum(gain, channels=6, groups=groups, positions=count, eps=eps)
    found = norm.singular_extremes(x)
    dense = torch.stack([group_spectra(sample, gain, groups, eps) for sample in x])
    torch.testing.assert_close(found.sigma_max, dense[..., 0], rtol=0, atol=1e-11)
    torch.testing.assert_close(found.frobenius, dense.norm(dim=-1), rtol=0, atol=1e-11)
    if size > 2:
        torch.testing.assert_close(found.sigma_min, dense[..., size - 3], rtol=0, atol=1e-11)
        assert (found.kappa.isinf() == (dense[..., size - 3] < 1e-12)).all()
    else:
        assert found.sigma_min.isnan().all()
    if size > 1:
        torch.testing.assert_close(found.radial, dense[..., size - 2], rtol=0, atol=1e-11)


def test_no_gain() -> None:
    x = torch.randn(2, 8, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    norm = prepare_group_spectrum(None, channels=8, groups=4, positions=4, eps=1e-5)
    s = (x.view(2, 4, 8).var(-1, correction=0) + 1e-5).sqrt()
    torch.testing.assert_close(norm.singular_extremes(x).sigma_max, 1 / s, rtol=1e-12, atol=0)


def test_sizes_that_do_not_fit_are_named() -> None:
    with pytest.raises(NormdiagError, match="10 channels do not split into 4 groups"):
        prepare_group_spectrum(None, channels=10, groups=4, positions=1, eps=1e-5)
    with pytest.raises(NormdiagError, match=r"gain of shape \(3,\)"):
        prepare_group_spectrum(torch.ones(3), channels=8, groups=4, positions=1, eps=1e-5)
    norm = prepare_group_spectrum(None, channels=8, groups=4, positions=2, eps=1e-5)
    with pytest.raises(NormdiagError, match=r"inputs of shape \(1, 8, 3\)"):
        norm.singular_extremes(torch.ones(1, 8, 3))
