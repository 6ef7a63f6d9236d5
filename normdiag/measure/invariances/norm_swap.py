"""The effect of the other kind of norm, LayerNorm for RMSNorm or the reverse, on a model's output.

One norm at a time on its own recorded rows, then all at once in one forward.
"""

from __future__ import annotations

import math

import torch
from torch import nn

from normdiag.errors import RunError
from normdiag.evidence.coverage import SkippedMeasurement
from normdiag.evidence.norm_swap import NormSwap, SwapLoss
from normdiag.evidence.statistics import MedianMax
from normdiag.graph import Node
from normdiag.inputs.batch import Batch
from normdiag.measure.gradients.loss import NoLossError, TriedTokens, choose_objective
from normdiag.measure.gradients.objectives import LossSettings, Objective
from normdiag.measure.invariances.plain_forward import PlainForward, compute_finite_loss
from normdiag.measure.invariances.swapped_forward import (
    OTHER_KIND,
    run_swapped_forward,
    swap_kind,
)
from normdiag.measure.settings import ForwardSettings
from normdiag.measure.sites.head_input import head_input_node
from normdiag.measure.sites.replay import apply_norm
from normdiag.measure.sites.samples import NormSample
from normdiag.measure.sites.site_statistics import SiteStatistics
from normdiag.measure.statistics.rows import leading_sizes, to_rows
from normdiag.measure.statistics.token_layouts import TokenLayouts
from normdiag.structure.algebraic_forms import DetectedNorm
from normdiag.structure.feature_axis import axis_in

_COMPARABLE = frozenset({"causal-lm", "sequence-to-sequence", "masked-lm", "own"})
"""Losses with the same targets whatever the model computes."""


def prepare_plain_forward(
    model: nn.Module,
    batch: Batch,
    statistics: SiteStatistics,
    settings: ForwardSettings,
    tokens: TriedTokens | None = None,
) -> PlainForward | None:
    """What is to be read of a forward without the swap; None where there are no such norms.

    `tokens` is what a choice of a loss tried before.
    """
    if not any(norm.kind in OTHER_KIND for norm in statistics.sites.norms):
        return None
    objective = _find_objective(model, batch, settings, tokens)
    node = _last_hidden_node(statistics)
    return PlainForward(
        batch=batch if objective is None else objective.batch,
        hidden_index=None if node is None else node.index,
        objective=objective,
    )


def measure_norm_swap(
    model: nn.Module, plain: PlainForward | None, statistics: SiteStatistics
) -> NormSwap | SkippedMeasurement | None:
    """Measure the swap of all LayerNorms and RMSNorms; None where there are none.

    `plain` is run where nothing was read of it yet. Where a forward fails the reason is returned.
    """
    norms = {norm: id for norm, id in statistics.sites.norms.items() if norm.kind in OTHER_KIND}
    if plain is None:
        return None
    samples = statistics.norm_samples
    alone = {id: _change_alone(norm, samples.get(id, []), statistics) for norm, id in norms.items()}
    try:
        if not plain.is_read:
            plain.run_alone(model)
        swapped = run_swapped_forward(model, plain.batch, plain.hidden_index)
        loss_after = compute_finite_loss(plain.objective, swapped.output)
    except RunError as error:
        return SkippedMeasurement(what="centring-swap of all norms", why=error.what)
    node, loss_before = _last_hidden_node(statistics), plain.loss
    change, tokens = _hidden_change(statistics, node, plain.batch, plain.hidden, swapped.hidden)
    loss = None
    if plain.objective is not None and loss_before is not None and loss_after is not None:
        loss = SwapLoss(
            kind=plain.objective.kind,
            tokens=loss_before[1],
            before=loss_before[0],
            after=loss_after[0],
        )
    return NormSwap(
        layer_norms=sum(norm.kind == "layernorm" for norm in norms),
        rms_norms=sum(norm.kind == "rmsnorm" for norm in norms),
        swapped=swapped.swapped,
        alone={id: effect for id, effect in alone.items() if effect is not None},
        hidden_change=change,
        tokens=tokens,
        loss=loss,
    )


def _change_alone(
    norm: DetectedNorm, samples: list[NormSample], statistics: SiteStatistics
) -> MedianMax | None:
    """||N'(x) - N(x)|| / ||N(x)|| of the sampled rows, in float64."""
    changes = []
    for sample in samples:
        before, after = (
            apply_norm(each, sample.input_rows, statistics.learned_values, sample.rows)
            for each in (norm, swap_kind(norm))
        )
        if before is None or after is None:
            return None
        sizes, change = before.norm(dim=-1), (after - before).norm(dim=-1)
        changes.append((change / sizes)[sizes > 0])
    values = torch.cat(changes) if changes else torch.empty(0)
    values = values[values.isfinite()]
    if not values.numel():
        return None
    return MedianMax(median=float(values.quantile(0.5)), max=float(values.max()))


def _find_objective(
    model: nn.Module, batch: Batch, settings: ForwardSettings, tokens: TriedTokens | None
) -> Objective | None:
    """A loss whose targets do not depend on the model; None where there is none."""
    try:
        choice = LossSettings(settings.mask_token, settings.seed)
        objective = choose_objective(model, batch, choice, tokens)
    except (NoLossError, RunError, RuntimeError, NotImplementedError):
        return None
    return objective if objective.kind in _COMPARABLE else None


def _last_hidden_node(statistics: SiteStatistics) -> Node | None:
    """The last stack's last value after its last norm, gain and bias."""
    stacks = statistics.first_pass.stacks
    if not stacks:
        return None
    node = head_input_node(max(stacks, key=lambda stack: stack.adds[-1].add.index))
    outputs = {norm.node: norm.output for norm in statistics.sites.norms}
    return outputs.get(node) or node


def _hidden_change(
    statistics: SiteStatistics,
    node: Node | None,
    batch: Batch,
    before: torch.Tensor | None,
    after: torch.Tensor | None,
) -> tuple[float | None, int]:
    """||change|| / ||value|| over all tokens that are not padding, and their number."""
    if node is None or before is None or after is None or before.shape != after.shape:
        return None, 0
    stacks = statistics.first_pass.stacks
    last = max((add.add for stack in stacks for add in stack.adds), key=lambda add: add.index)
    axis = axis_in(before.shape, last)
    lead = leading_sizes(tuple(before.shape), (axis,))
    valid = TokenLayouts(batch).layout_of(node).site_tokens(lead).valid
    rows, swapped = (to_rows(value, (axis,)).double() for value in (before, after))
    if valid is not None:
        rows, swapped = rows[valid], swapped[valid]
    change = float((swapped - rows).norm() / rows.norm())
    return change if math.isfinite(change) else None, len(rows)
