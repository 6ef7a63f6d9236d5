"""How the gradient of a stated loss flows back: one backward pass of which no gradient is kept.

Every norm is taken in float64 the moment its gradient arrives, and the gradient is dropped there:
what is held at any time is the backward pass alone, not one gradient per parameter.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import nn

from normdiag.evidence.gradients import Clipping, Gradients, GradientTrend, Loss, NormGradient
from normdiag.measure.gradients.loss import NoLossError
from normdiag.measure.gradients.objectives import Objective
from normdiag.measure.passes.gradient_edges import AddEdges, GradientEdges, record_gradient_edges
from normdiag.measure.passes.half_products import fast_half_products
from normdiag.measure.statistics.rows import to_rows
from normdiag.structure.build_architecture import SiteMap
from normdiag.structure.parameter_groups import group_parameters, single_parameter_name
from normdiag.structure.stack_structure import StackStructure

_COPIED = 1 << 19
"""Elements that are copied to float64 at a time."""
_HALF_SCALE = 1024.0
"""What a loss in float16 is multiplied by, and its gradients divided by: else the smallest vanish,
as they would in training without it."""


def compute_gradients(model: nn.Module, objective: Objective, clip: float) -> Gradients:
    """The gradient of `objective` at every residual add and, by group, at the parameters.

    `clip` is the global norm at which a training would clip. The model's own `.grad` stay as they
    are. Raises NoLossError where autograd does not reach the loss, RunError where forward fails.
    """
    with record_gradient_edges(model, objective.batch) as edges:
        loss, tokens = objective.compute_loss(edges.output)
        if not loss.requires_grad:
            raise NoLossError("autograd does not follow the forward to its output")
        received = _run_backward(model, edges, loss)
        if not received.parameters:
            raise NoLossError(
                "no gradient arrives at a parameter: what lies between has no derivative"
            )
        groups = group_parameters(edges.graph, edges.sites.stacks, received.parameters)
        total, shares = _group_shares(received.parameters, groups)
        stacks = {
            name: _norms_by_depth(stack, edges.sites, received.stream)
            for name, stack in edges.sites.stacks.items()
        }
        ratios = {name: _last_over_first(norms) for name, norms in stacks.items() if norms}
        longest = max(stacks, key=lambda name: len(stacks[name]), default=None)
        return Gradients(
            loss=Loss(
                kind=objective.kind,
                value=float(loss.detach()),
                tokens=tokens,
                note=objective.note,
            ),
            stream=received.stream,
            ratio_last_first=None if longest is None else ratios.get(longest),
            ratios={name: ratio for name, ratio in ratios.items() if ratio is not None},
            trends=_fit_trends(stacks, edges.sites.stacks),
            groups=shares,
            global_norm=total,
            clipping=None if total is None else _describe_clipping(total, shares, clip),
            norms=_norm_gradients(edges.sites, received.parameters),
        )


@dataclass(slots=True)
class _GradientNorms:
    """L2 norms of the gradients, by id of the add and by name of the parameter."""

    stream: dict[str, float] = field(default_factory=dict)
    parameters: dict[str, float] = field(default_factory=dict)


def _run_backward(model: nn.Module, edges: GradientEdges, loss: torch.Tensor) -> _GradientNorms:
    """Run the backward pass. What the loss does not depend on receives 0."""
    halves = any(p.dtype == torch.float16 for p in model.parameters())
    scale = _HALF_SCALE if halves else 1.0
    received = _GradientNorms()
    handles = []
    for name, add_edges in edges.adds.items():
        if add_edges.out is not None:
            received.stream[name] = 0.0
            hook = _stream_hook(name, add_edges, received.stream, scale)
            handles.append(add_edges.out.node.register_prehook(hook))
    asked = {name: p for name, p in model.named_parameters() if p.requires_grad}
    if not asked:
        raise NoLossError("the model has no parameter of floating point that can be differentiated")
    for name, parameter in asked.items():
        dropped = _parameter_hook(name, received.parameters, scale)
        handles.append(parameter.register_hook(dropped))  # type: ignore[no-untyped-call]
    try:
        with fast_half_products(model):
            torch.autograd.grad(loss * scale, list(asked.values()), allow_unused=True)
    finally:
        for handle in handles:
            handle.remove()
    received.parameters = {n: received.parameters[n] for n in asked if n in received.parameters}
    return received


def _stream_hook(
    name: str, add_edges: AddEdges, into: dict[str, float], scale: float
) -> Callable[[Sequence[Any]], None]:
    """Root of the mean over real tokens of ||dL/dy||^2."""
    place = 0 if add_edges.out is None else add_edges.out.output_nr

    def receive_gradient(gradients: Sequence[Any]) -> None:
        gradient = gradients[place]
        if gradient is None:
            return
        rows = to_rows(gradient, (add_edges.axis,))
        rows = rows if add_edges.tokens.valid is None else rows[add_edges.tokens.valid]
        into[name] = l2_norm(rows) / scale / math.sqrt(max(rows.shape[0], 1))

    return receive_gradient


def _parameter_hook(
    name: str, into: dict[str, float], scale: float
) -> Callable[[torch.Tensor | None], torch.Tensor | None]:
    """The norm, and nothing in the gradient's place."""

    def receive_gradient(gradient: torch.Tensor | None) -> torch.Tensor | None:
        if gradient is None:  # an operation behind it has no derivative
            return None
        if gradient.is_sparse:
            into[name] = l2_norm(gradient.coalesce().values()) / scale
            return None
        into[name] = l2_norm(gradient) / scale
        return gradient.new_zeros(()).expand_as(gradient)

    return receive_gradient


def l2_norm(values: torch.Tensor) -> float:
    """The L2 norm, in float64 a few rows at a time: a copy of a whole table would be large."""
    rows = values.detach().reshape(1) if values.dim() == 0 else values.detach()
    parts = torch.split(rows, max(1, _COPIED * len(rows) // max(rows.numel(), 1)))
    return math.hypot(*(float(torch.linalg.vector_norm(p, dtype=torch.float64)) for p in parts))


def _group_shares(
    norms: Mapping[str, float], groups: Mapping[str, str]
) -> tuple[float | None, dict[str, float]]:
    """The global norm, and each group's share of its square."""
    if not norms:
        return None, {}
    squares: dict[str, float] = {}
    for name, norm in norms.items():
        squares[groups[name]] = squares.get(groups[name], 0.0) + norm * norm
    total = math.fsum(squares.values())
    shares = {group: square / total if total else 0.0 for group, square in squares.items()}
    return math.sqrt(total), shares


def _describe_clipping(total: float, shares: Mapping[str, float], clip: float) -> Clipping:
    can_tell = math.isfinite(total) and total > 0
    return Clipping(
        max_norm=clip,
        factor=1.0 if total <= clip else clip / total,
        dominant_group=max(shares, key=lambda group: shares[group]) if can_tell else None,
    )


def _norms_by_depth(
    stack: StackStructure, sites: SiteMap, stream: Mapping[str, float]
) -> dict[int, float]:
    """Depth of an add -> the gradient there."""
    ids = enumerate(sites.adds[facts.add] for facts in stack.adds)
    return {depth: stream[name] for depth, name in ids if name in stream}


def _last_over_first(along: Mapping[int, float]) -> float | None:
    first, last = along[min(along)], along[max(along)]
    if first == 0.0:
        return math.inf if last > 0 else None
    return last / first


def _fit_trends(
    stacks: Mapping[str, Mapping[int, float]], facts: Mapping[str, StackStructure]
) -> dict[str, GradientTrend]:
    results = {}
    for name, along in stacks.items():
        per_layer = len(facts[name].adds) / facts[name].layers.count
        trend = fit_trend({depth / per_layer: norm for depth, norm in along.items()})
        if trend is not None:
            results[name] = trend
    return results


def fit_trend(along: Mapping[float, float]) -> GradientTrend | None:
    """Least squares of log(norm) on depth; None where fewer than two norms have a logarithm."""
    usable = {at: norm for at, norm in along.items() if math.isfinite(norm) and norm > 0}
    if len(usable) < 2:
        return None
    at = np.array(list(usable)) - np.mean(list(usable))
    logs = np.log(list(usable.values()))
    spread = float(at @ at)
    slope = float(at @ logs) / spread
    residual = logs - logs.mean() - slope * at
    error = None
    if len(usable) > 2:
        error = math.sqrt(float(residual @ residual) / (len(usable) - 2) / spread)
    rate = math.exp(slope)
    return GradientTrend(
        rate=rate,
        rate_error=None if error is None else rate * error,
        total=math.exp(slope * float(at.max() - at.min())),
    )


def _norm_gradients(sites: SiteMap, parameters: Mapping[str, float]) -> dict[str, NormGradient]:
    """Of the norms of which the gain or the bias is a parameter that got a gradient."""
    results = {}
    for norm, name in sites.norms.items():
        gain = parameters.get(single_parameter_name(norm.gains) or "")
        bias = parameters.get(single_parameter_name(norm.biases) or "")
        if gain is not None or bias is not None:
            results[name] = NormGradient(gain=gain, bias=bias)
    return results
