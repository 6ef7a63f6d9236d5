"""Singular values of each norm's Jacobian, against dense autograd and LAPACK in float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from normdiag.evidence.norm_inputs import NormJacobian
from normdiag.inputs.batch import Batch
from normdiag.measure.passes.forward import RowSampling, run_forward
from normdiag.measure.passes.site_observer import MeasuredQuantities
from tests.measure.forwards import accumulate_forward, accumulate_passes, measure_sites, only_norm
from tests.measure.test_kinds import KINDS, Kind, spread_parameters


def singular_values(module: nn.Module, x: torch.Tensor) -> np.ndarray:
    """Of dy/dx for one input alone, every element counted, largest first."""
    dense = torch.autograd.functional.jacobian(lambda t: module(t[None])[0], x)
    size = x.numel()
    return np.linalg.svd(dense.reshape(size, size).numpy(), compute_uv=False)


def token_singular_values(module: nn.Module, x: torch.Tensor, axes: int) -> list[np.ndarray]:
    rows = x.reshape(-1, *x.shape[-axes:])
    return [singular_values(module, row) for row in rows]


def group_singular_values(module: nn.Module, x: torch.Tensor, groups: int) -> list[np.ndarray]:
    """A group's outputs depend on the group's inputs only: one block of the dense Jacobian."""
    jacobian = []
    for one in x:
        dense = torch.autograd.functional.jacobian(lambda t: module(t[None])[0], one)
        blocks = dense.reshape(groups, one.numel() // groups, groups, -1)
        jacobian += [np.linalg.svd(blocks[g, :, g], compute_uv=False) for g in range(groups)]
    return jacobian


def check_jacobian(jacobian: NormJacobian, values: list[np.ndarray], removed: int) -> None:
    """`removed`: how many directions a norm of the kind takes out (2: centring too)."""
    largest = np.array([s[0] for s in values])
    smallest = np.array([s[-1 - removed] for s in values])
    radial = np.array([s[-removed] for s in values])
    assert jacobian.tokens == len(values)
    np.testing.assert_allclose(jacobian.sigma_max.median, np.median(largest), rtol=1e-6)
    np.testing.assert_allclose(jacobian.sigma_max.max, largest.max(), rtol=1e-6)
    assert jacobian.sigma_min is not None
    assert jacobian.kappa is not None
    assert jacobian.radial is not None
    np.testing.assert_allclose(jacobian.sigma_min.median, np.median(smallest), rtol=1e-6)
    np.testing.assert_allclose(jacobian.sigma_min.min, smallest.min(), rtol=1e-6)
    np.testing.assert_allclose(jacobian.kappa.max, (largest / smallest).max(), rtol=1e-6)
    np.testing.assert_allclose(jacobian.radial.max, radial.max(), rtol=1e-4)


def measure_kind(kind: Kind) -> tuple[nn.Module, torch.Tensor, NormJacobian | None]:
    torch.manual_seed(0)
    module, x = (
        spread_parameters(kind.make()).double(),
        torch.randn(kind.shape, dtype=torch.float64) + 0.5,
    )
    assembly, measurements = measure_sites(module, x)
    (norm,) = assembly.sites.architecture.norms
    return module, x, measurements.norms[norm.id].jacobian


@pytest.mark.parametrize(
    ("name", "removed"),
    [
        ("layer norm", 2),
        ("over two axes", 2),
        ("no affine", 2),
        ("rms norm", 1),
        ("1 + w", 1),
        ("eps is a parameter", 1),
        ("torch's rms norm", 1),
    ],
)
def test_of_tokens(name: str, removed: int) -> None:
    module, x, jacobian = measure_kind(KINDS[name])
    assert jacobian is not None
    check_jacobian(
        jacobian, token_singular_values(module, x, 2 if name == "over two axes" else 1), removed
    )


@pytest.mark.parametrize("name", ["group norm", "group norm of images", "one group"])
def test_of_groups(name: str) -> None:
    module, x, jacobian = measure_kind(KINDS[name])
    assert jacobian is not None
    check_jacobian(jacobian, group_singular_values(module, x, module.num_groups), 2)


@pytest.mark.parametrize("flatten", [(0,), (0, 2), (0, 1, 2)], ids=["one", "two", "all"])
def test_of_groups_whose_gains_are_alike(flatten: tuple[int, ...]) -> None:
    """One spectrum serves for all groups with one gain."""
    torch.manual_seed(1)
    module = spread_parameters(nn.GroupNorm(3, 6)).double()
    with torch.no_grad():
        for g in flatten:
            module.weight[2 * g : 2 * g + 2] = 0.5 * (g + 1)
    x = torch.randn(2, 6, 4, dtype=torch.float64)
    assembly, measurements = measure_sites(module, x)
    (norm,) = assembly.sites.architecture.norms
    jacobian = measurements.norms[norm.id].jacobian
    assert jacobian is not None
    check_jacobian(jacobian, group_singular_values(module, x, 3), 2)


def test_of_groups_at_several_lengths() -> None:
    """Two passes whose inputs have different numbers of positions."""
    torch.manual_seed(0)
    module = spread_parameters(nn.GroupNorm(2, 4)).double()
    inputs = [torch.randn(1, 4, n, dtype=torch.float64) for n in (3, 5)]
    passes = [
        run_forward(module, Batch(args=(x,), rows=(0,)), MeasuredQuantities(), RowSampling(None))
        for x in inputs
    ]
    assembly = accumulate_passes(passes)
    measurements = assembly.compute(("norm-inputs", "norm-jacobians"))
    (jacobian,) = [m.jacobian for m in measurements.norms.values()]
    assert jacobian is not None
    check_jacobian(jacobian, [s for x in inputs for s in group_singular_values(module, x, 2)], 2)


def test_of_running_statistics() -> None:
    """A fixed map of channels: one Jacobian for every token."""
    module, x, jacobian = measure_kind(KINDS["batch norm"])
    assert jacobian is not None
    assert not module.training
    one = x[:1]
    dense = torch.autograd.functional.jacobian(lambda t: module(t), one)
    values = np.linalg.svd(dense.reshape(one.numel(), -1).numpy(), compute_uv=False)
    for summary, expected in (
        (jacobian.sigma_max, values[0]),
        (jacobian.sigma_min, values[-1]),
        (jacobian.kappa, values[0] / values[-1]),
    ):
        assert summary is not None
        np.testing.assert_allclose(summary.median, expected, rtol=1e-6)
    assert (jacobian.radial, jacobian.tokens) == (None, 1)


def test_batch_statistics_have_no_jacobian_of_one_token() -> None:
    torch.manual_seed(0)
    module = nn.BatchNorm1d(6, track_running_stats=False)
    _, measurements = measure_sites(module, torch.randn(4, 6))
    assert [m.jacobian for m in measurements.norms.values()] == [None]


@pytest.mark.parametrize("name", ["tanh", "unit vectors", "std + eps"])
def test_what_has_another_form_is_left_out(name: str) -> None:
    assert measure_kind(KINDS[name])[2] is None


def test_sampled_tokens_are_those_of_the_seed() -> None:
    torch.manual_seed(0)
    module, x = (
        spread_parameters(nn.LayerNorm(6)).double(),
        torch.randn(1, 9, 6, dtype=torch.float64),
    )
    _, sample = only_norm(accumulate_forward(module, x, tokens=4))
    torch.testing.assert_close(sample.input_rows, x[0, sample.rows], rtol=0, atol=0)
    assert sample.rows.numel() == 4


@pytest.mark.parametrize("dead", [(), (1, 4)], ids=["live", "dead gains"])
@pytest.mark.parametrize(
    "name", ["layer norm", "rms norm", "torch's rms norm", "group norm", "1 + w"]
)
def test_extremes_are_those_of_all_tokens(name: str, dead: tuple[int, ...]) -> None:
    """Three tokens are sampled of 40 whose sizes lie decades apart; padding is left out."""
    torch.manual_seed(1)
    module = spread_parameters(KINDS[name].make()).double()
    weight = next(p for p in module.parameters() if p.dim())
    is_group = isinstance(module, nn.GroupNorm)
    with torch.no_grad():
        weight[list(dead)] = -1.0 if name == "1 + w" else 0.0
    shape = (8, *KINDS[name].shape[1:]) if is_group else (4, 10, weight.numel())
    x = torch.randn(shape, dtype=torch.float64)
    x *= torch.logspace(-1, 1, x[..., :1].numel(), dtype=torch.float64).view(x[..., :1].shape)
    dense = (
        group_singular_values(module, x, module.num_groups)
        if is_group
        else token_singular_values(module, x, 1)
    )
    statistics = accumulate_forward(module, x, tokens=3)
    (measured,) = statistics.compute(("norm-jacobians",)).norms.values()
    jacobian, removed = measured.jacobian, 1 if "rms" in name or name == "1 + w" else 2
    assert jacobian is not None and jacobian.kappa is not None and jacobian.live_kappa is not None
    assert jacobian.sigma_min is not None and jacobian.radial is not None
    assert (jacobian.tokens, jacobian.sample) == (len(dense), 3)
    _, sample = only_norm(statistics)
    largest = [s[0] for s in dense]
    np.testing.assert_allclose(jacobian.sigma_max.max, max(largest), rtol=1e-6)
    median = np.median([largest[i] for i in sample.rows.tolist()])
    np.testing.assert_allclose(jacobian.sigma_max.median, median, rtol=1e-6)
    assert jacobian.sigma_max.max > 1.01 * max(largest[i] for i in sample.rows.tolist())
    smallest, radial = min(s[-1 - removed] for s in dense), max(s[-removed] for s in dense)
    np.testing.assert_allclose(jacobian.sigma_min.min, smallest, rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(jacobian.radial.max, radial, rtol=1e-4, atol=1e-12)
    if not dead:
        np.testing.assert_allclose(
            jacobian.kappa.max, max(s[0] / s[-1 - removed] for s in dense), rtol=1e-6
        )
    elif not is_group:
        kappas = [s[0] / s[-1 - removed - len(dead)] for s in dense]
        np.testing.assert_allclose(jacobian.live_kappa.max, max(kappas), rtol=1e-6)


class _InPlace(nn.Module):
    """The input of each norm is overwritten before the next norm runs, and rows are padding."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(6), nn.RMSNorm(6, eps=1e-6)

    def forward(self, inputs_embeds, attention_mask=None):
        x = inputs_embeds.clone()
        y = self.first(x)
        x.zero_()
        return self.second(y)


def test_extremes_leave_padding_out_and_hold_the_input_as_it_was() -> None:
    torch.manual_seed(2)
    model = _InPlace().double()
    spread_parameters(model)
    x = torch.randn(2, 9, 6, dtype=torch.float64)
    x[1, 5:] *= 1e-3
    mask = torch.ones(2, 9, dtype=torch.long)
    mask[1, 5:] = 0
    statistics = accumulate_forward(model, inputs_embeds=x, attention_mask=mask, tokens=2)
    measured = statistics.compute(("norm-jacobians",)).norms
    tokens = x[mask.bool()]
    for id, module, rows in (
        ("first", model.first, tokens),
        ("second", model.second, model.first(tokens).detach()),
    ):
        jacobian = measured[id].jacobian
        assert jacobian is not None and jacobian.tokens == 14
        values = [s[0] for s in token_singular_values(module, rows, 1)]
        np.testing.assert_allclose(jacobian.sigma_max.max, max(values), rtol=1e-9)


def test_two_features_are_too_few() -> None:
    """Two features leave a LayerNorm no direction but the two that it takes out."""
    torch.manual_seed(0)
    module, x = nn.LayerNorm(2).double(), torch.randn(1, 3, 2, dtype=torch.float64)
    assembly, measurements = measure_sites(module, x)
    (norm,) = assembly.sites.architecture.norms
    jacobian = measurements.norms[norm.id].jacobian
    assert jacobian is not None
    assert (jacobian.sigma_min, jacobian.kappa) == (None, None)


@pytest.mark.parametrize(("make", "removed"), [(nn.LayerNorm, 2), (nn.RMSNorm, 1)])
@pytest.mark.parametrize("dead", [0.0, 1e-10])
def test_dead_gains_are_no_ill_conditioning(make: type, removed: int, dead: float) -> None:
    torch.manual_seed(0)
    module = spread_parameters(make(12, eps=1e-6)).double()
    with torch.no_grad():
        module.weight[[2, 5, 6]] = dead
    x = torch.randn(1, 5, 12, dtype=torch.float64)
    assembly, measurements = measure_sites(module, x)
    (norm,) = assembly.sites.architecture.norms
    jacobian = measurements.norms[norm.id].jacobian
    assert jacobian is not None
    assert jacobian.kappa is not None
    assert jacobian.live_kappa is not None
    kappas = [s[0] / s[-1 - removed - 3] for s in token_singular_values(module, x, 1)]
    np.testing.assert_allclose(jacobian.live_kappa.max, max(kappas), rtol=1e-6)
    np.testing.assert_allclose(jacobian.live_kappa.median, np.median(kappas), rtol=1e-6)
    gains = module.weight.detach().abs()
    live = gains[gains > 1e-6]
    assert jacobian.live_kappa.max <= float(live.max() / live.min()) * (1 + 1e-9)
    assert jacobian.kappa.max > 1e6
