"""The largest logit of every attention, from one forward of its own.

Where scores, mask and softmax are separate operations, the softmax's operand is read as it runs;
a fused attention keeps its logits to itself, and they are computed again from q, k and the mask.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Protocol

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from normdiag.capture.recorder import OperationObserver
from normdiag.errors import TargetError
from normdiag.evidence.attention_logits import AttentionLogits
from normdiag.evidence.coverage import SkippedMeasurement
from normdiag.graph import Node
from normdiag.inputs.batch import Batch
from normdiag.measure.passes.recorded_forward import record_forward
from normdiag.measure.precision.logit_statistics import (
    LogitSource,
    LogitStatistics,
    summarise_logits,
)
from normdiag.measure.statistics.token_layouts import TokenLayouts
from normdiag.structure.aten_operations import ATTENTION, SOFTMAX
from normdiag.structure.attention_scores import (
    AttentionScore,
    find_attention_score,
    find_fused_score,
)
from normdiag.structure.build_architecture import SiteMap


class ForwardReader(OperationObserver, Protocol):
    """Reads a forward that is run for something else; is shown its output at the end."""

    def read_output(self, output: Any) -> None:
        """Read what the model gave back."""


class _KeywordReader(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Keeps the keywords of the operation that ran last: an observer is shown no keywords."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.keywords: dict[str, Any] = {}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        self.keywords = kwargs or {}
        return func(*args, **self.keywords)


@dataclass(frozen=True, slots=True)
class _ObservedAttention:
    score: AttentionScore
    output: Node
    statistics: LogitStatistics
    query_rows: int


@dataclass(slots=True)
class _LogitObserver:
    """Summarises the logits of each attention. Implements `capture.recorder.OperationObserver`."""

    layouts: TokenLayouts
    beside: ForwardReader | None = None
    reader: _KeywordReader = field(default_factory=_KeywordReader)
    attentions: list[_ObservedAttention] = field(default_factory=list)

    def needs_operand_copy(self, op: str, args: tuple[Any, ...]) -> bool:
        """True for a softmax that overwrites its logits."""
        return op in SOFTMAX

    def observe_operation(self, node: Node, args: tuple[Any, ...], output: torch.Tensor) -> None:
        """Summarise the logits of `node` where it is the softmax of scores or an attention."""
        if self.beside is not None:
            self.beside.observe_operation(node, args, output)
        layout = self.layouts.layout_of(node)
        if node.op in SOFTMAX:
            score = find_attention_score(node)
            source = _read_softmax(args[0], layout.sequences)
        elif node.op in ATTENTION:
            score = find_fused_score(node)
            source = _recompute_fused(node, args, self.reader.keywords)
        else:
            return
        if score is None or source is None:
            return
        valid = None
        shape = layout.sequences, layout.positions
        if shape == (source.sequences, source.queries):
            rows = layout.site_tokens(shape).valid
            if rows is not None:
                valid = torch.zeros(shape[0] * shape[1], dtype=torch.bool, device=rows.device)
                valid = valid.index_fill(0, rows, value=True).view(shape)
        statistics = summarise_logits(source, valid)
        if statistics is not None:
            many = source.sequences * source.queries if valid is None else int(valid.sum())
            self.attentions.append(_ObservedAttention(score, node, statistics, many))


def _read_softmax(logits: torch.Tensor, sequences: int) -> LogitSource | None:
    """Logits (sequences, heads, queries, keys), with the first two in one axis, or of one head."""
    if logits.dim() < 2 or logits.numel() == 0 or not logits.is_floating_point():
        return None
    queries, keys = logits.shape[-2:]
    lead = logits.shape[0] if logits.dim() > 2 else 1
    if logits.dim() == 3 and sequences > 0 and lead % sequences == 0:
        lead = sequences
    split = logits.reshape(lead, -1, queries, keys)
    return LogitSource(lead, split.shape[1], queries, keys, lambda h, rows: split[:, h, rows])


def _recompute_fused(
    node: Node, args: tuple[Any, ...], keywords: dict[str, Any]
) -> LogitSource | None:
    """scale q . k with mask, of a fused attention on (sequences, heads, tokens, width)."""
    if len(args) < 2 or any(not isinstance(a, torch.Tensor) or a.dim() != 4 for a in args[:2]):
        return None
    q, k = args[0], args[1]
    mask = keywords.get("attn_mask", args[3] if len(args) > 3 else None)
    mask = mask if isinstance(mask, torch.Tensor) else None
    if mask is not None:
        mask = mask.expand(q.shape[0], q.shape[1], q.shape[2], k.shape[2])
    scale = keywords.get("scale")
    scale = q.shape[-1] ** -0.5 if scale is None else float(scale)
    is_causal = _is_causal(node, args, keywords)
    group = q.shape[1] // k.shape[1]

    def compute(head: int, rows: slice) -> torch.Tensor:
        logits: torch.Tensor = (q[:, head, rows].float() @ k[:, head // group].float().mT) * scale
        if mask is not None:
            own = mask[:, head, rows]
            is_boolean = own.dtype == torch.bool
            logits = logits.masked_fill(~own, -math.inf) if is_boolean else logits + own
        if is_causal:
            hidden = torch.ones(logits.shape[1:], dtype=torch.bool, device=q.device)
            logits = logits.masked_fill(hidden.triu(rows.start + 1), -math.inf)
        return logits

    return LogitSource(q.shape[0], q.shape[1], q.shape[2], k.shape[2], compute)


_CAUSAL_ARGUMENT = {
    "scaled_dot_product_attention": 5,
    "_scaled_dot_product_attention_math": 5,
    "_scaled_dot_product_flash_attention_for_cpu": 4,
    "_scaled_dot_product_flash_attention": 4,
    "_scaled_dot_product_efficient_attention": 6,
    "_scaled_dot_product_cudnn_attention": 6,
    "_scaled_dot_product_fused_attention_overrideable": 5,
}
"""The position of is_causal in the schema of each operation."""


def _is_causal(node: Node, args: tuple[Any, ...], keywords: dict[str, Any]) -> bool:
    place = _CAUSAL_ARGUMENT.get(node.op, len(args))
    return bool(keywords.get("is_causal", args[place] if place < len(args) else False))


@dataclass(frozen=True, slots=True)
class MeasuredLogits:
    """The logits of one forward."""

    by_module: dict[str, AttentionLogits]
    """In the order of the forward."""
    by_product: dict[int, float]
    """Place of q . k in the forward -> the largest |logit|."""


def measure_attention_logits(
    model: nn.Module, batch: Batch, sites: SiteMap, beside: ForwardReader | None = None
) -> MeasuredLogits | SkippedMeasurement:
    """The logits of every attention on `batch`, whose sites are `sites`.

    `beside` reads the same forward; it is shown the operands of a softmax as copies.
    """
    observer = _LogitObserver(TokenLayouts(batch), beside)
    try:
        with torch.no_grad():
            output, _ = record_forward(model, batch, observer, observer.reader)
            if beside is not None:
                beside.read_output(output)
    except TargetError as error:
        return SkippedMeasurement(what="attention logits", why=error.what)
    counts = Counter(each.output.frame.id for each in observer.attentions)
    numbers: Counter[str] = Counter()
    logits = {}
    for each in observer.attentions:
        module = each.output.frame.id
        id = module if counts[module] == 1 else f"{module}#{numbers[module]}"
        numbers[module] += 1
        logits[id] = _to_evidence(each, sites, batch)
    by_product = {o.score.product.index: o.statistics.max_abs for o in observer.attentions}
    return MeasuredLogits(logits, by_product)


def _to_evidence(observed: _ObservedAttention, sites: SiteMap, batch: Batch) -> AttentionLogits:
    statistics = observed.statistics
    sequence, head, query, key = statistics.place
    add, layer = _find_place(observed.output, sites)
    return AttentionLogits(
        add=add,
        layer=layer,
        heads=len(statistics.head_max),
        query_rows=observed.query_rows,
        max_abs=statistics.max_abs,
        value=statistics.value,
        sequence=batch.rows[sequence] if sequence < len(batch.rows) else sequence,
        head=head,
        query=query,
        key=key,
        median_max=median(statistics.head_max),
        median_weight=float(statistics.weights.median()) if statistics.weights.numel() else None,
        head_width=observed.score.head_width,
        scale=observed.score.scale,
        is_fused=observed.output.op in ATTENTION,
    )


def _find_place(node: Node, sites: SiteMap) -> tuple[str | None, int | None]:
    """Id and layer of the add of the innermost branch that holds the node of that number."""
    regions = [
        (len(region), sites.adds[add])
        for stack in sites.stacks.values()
        for add, region in stack.regions.items()
        if any(inner.index == node.index for inner in region)
    ]
    if not regions:
        return None, None
    add = min(regions)[1]
    layers = {a.id: a.layer for a in sites.architecture.residual_adds}
    return add, layers.get(add)
