"""Invariances of norms: in closed form for every norm, tested once for every kind of norm."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress

import torch
from torch import nn

from normdiag.evidence.architecture import Norm, NormKind
from normdiag.evidence.invariances import Invariances, KindInvariance, NormInvariance
from normdiag.evidence.norm_inputs import NormMeasurement
from normdiag.evidence.statistics import MedianMax
from normdiag.inputs.batch import Batch
from normdiag.inputs.truncation import truncate_batch
from normdiag.measure.depth.first_sequence import POSITIONS
from normdiag.measure.invariances.norm_operation import (
    NormOperation,
    capture_inputs,
    find_norm_module,
    operation_from_formula,
    operation_from_module,
)
from normdiag.measure.invariances.scale_free import find_scale_free_weights
from normdiag.measure.sites.site_statistics import SiteStatistics
from normdiag.structure.algebraic_forms import DetectedNorm

_ROUNDING = 1e-5
"""Relative change below which a norm computed in float32 counts as invariant."""


def measure_invariances(
    model: nn.Module,
    batch: Batch,
    statistics: SiteStatistics,
    norm_inputs: Mapping[str, NormMeasurement],
) -> Invariances:
    """Of all norms of `statistics`; `norm_inputs` are their inputs."""
    norms_by_id = {id: norm for norm, id in statistics.sites.norms.items()}
    norms = [norm for norm in statistics.sites.architecture.norms if norm.id in norm_inputs]
    return Invariances(
        kinds=dict(_iterate_kinds(model, batch, statistics, norms)),
        norms={
            norm.id: _scale_invariance(norm_inputs[norm.id].eps_share)
            for norm in norms
            if norm.kind in ("layernorm", "rmsnorm", "groupnorm")
            and norms_by_id[norm.id].eps_place == "inside"
        },
        scale_invariant_weights=find_scale_free_weights(
            model, statistics.first_pass.graph, statistics.sites
        ),
    )


def _scale_invariance(share: MedianMax) -> NormInvariance:
    """N(2x)/N(x) = 2 s(x)/s(2x), of the same direction; J x = e (N(x) - bias)."""

    def scale_change(e: float) -> float:
        return float(2 / (4 - 3 * e) ** 0.5 - 1)

    return NormInvariance(
        scale=MedianMax(median=scale_change(share.median), max=scale_change(share.max)),
        radial=share,
    )


def _iterate_kinds(
    model: nn.Module, batch: Batch, statistics: SiteStatistics, norms: list[Norm]
) -> Iterator[tuple[NormKind, KindInvariance]]:
    """The first norm of each kind, by its module where that runs alone, else by its formula."""
    norms_by_id = {id: norm for norm, id in statistics.sites.norms.items()}
    first: dict[NormKind, tuple[str, DetectedNorm]] = {}
    for norm in norms:
        first.setdefault(norm.kind, (norm.id, norms_by_id[norm.id]))
    own = {id: find_norm_module(model, norm) for id, norm in first.values()}
    modules = {id: module for id, module in own.items() if module is not None}
    inputs = capture_inputs(model, truncate_batch(batch, POSITIONS), modules) if modules else {}
    for kind, (id, site) in first.items():
        invariance = None
        if id in inputs:
            # somebody else's code, on inputs that it was not written for
            with suppress(Exception):
                invariance = _test_operation(
                    id, operation_from_module(modules[id], site, inputs[id])
                )
        if invariance is None:
            formula = operation_from_formula(
                site, statistics.norm_samples[id][0], statistics.learned_values
            )
            invariance = None if formula is None else _test_operation(id, formula)
        if invariance is not None:
            yield kind, invariance


def _test_operation(id: str, norm: NormOperation) -> KindInvariance:
    x, train, evaluate = norm.x, norm.train, norm.evaluate
    bias = train(torch.zeros_like(torch.cat([x, x])))[:1].nan_to_num()
    plain = evaluate(x) - bias
    among = [torch.cat([x, other]) for other in (x.flip(0, -1), 3 * x.roll(1, -1) + x.std())]
    one, other = (train(sequences)[:1] - bias for sequences in among)
    batch = _relative_change(one, other)
    return KindInvariance(
        norm=id,
        method=norm.by,
        scale=_relative_change(plain, evaluate(2 * x) - bias),
        shift=_relative_change(plain, evaluate(x + x.std()) - bias),
        batch=batch,
        padding=_padding_change(norm, bias),
        train_vs_eval=_relative_change(evaluate(among[0])[:1] - bias, one),
        batch_size_one=_single_token_energy(norm) if batch > _ROUNDING else None,
    )


def _padding_change(norm: NormOperation, bias: torch.Tensor) -> float | None:
    axis = norm.positions
    if axis is None:
        return None
    alone = norm.train(torch.cat([norm.x, norm.x]))[:1] - bias
    padded = torch.cat([norm.x, torch.zeros_like(norm.x)], axis)
    with_padding = (
        norm.train(torch.cat([padded, padded])).narrow(axis, 0, norm.x.shape[axis])[:1] - bias
    )
    return _relative_change(alone, with_padding)


def _single_token_energy(norm: NormOperation) -> float:
    """The energy that one token alone keeps in train mode; torch refuses where none would be."""
    x = norm.x if norm.positions is None else norm.x.narrow(norm.positions, 0, 1)
    try:
        alone = norm.train(x) - norm.train(torch.zeros_like(x))
    except ValueError:
        return 0.0
    whole = norm.evaluate(x) - norm.evaluate(torch.zeros_like(x))
    return float(alone.square().sum() / whole.square().sum())


def _relative_change(before: torch.Tensor, after: torch.Tensor) -> float:
    size = torch.linalg.vector_norm(before)
    change = torch.linalg.vector_norm(after - before)
    return float(change / size) if size else float(change)
