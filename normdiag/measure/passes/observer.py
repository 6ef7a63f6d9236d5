"""Sees every operation of the forward and measures norms and residual adds as they run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod
from typing import Any

import torch

from normdiag.capture.source_line import source_line
from normdiag.graph import Node
from normdiag.measure.passes.norm_operand import NormOperand, operands
from normdiag.measure.statistics.add_statistics import AddRows, add_rows
from normdiag.measure.statistics.extremes import Extremes, extremes
from normdiag.measure.statistics.norm_statistics import NormRows, norm_rows
from normdiag.measure.statistics.peaks import is_peak, largest
from normdiag.measure.statistics.rows import Sampler, TokenLayout, Tokens, to_rows
from normdiag.measure.statistics.slab import Slab
from normdiag.structure.features import feature_axis
from normdiag.structure.forms import MeanForm, DetectedNorm, TanhForm
from normdiag.structure.operations import CASTS
from normdiag.structure.reading import StructureReader
from normdiag.structure.residuals import ADDITIONS, DetectedAdd

_SCALINGS = frozenset({"mul", "div"})
SMALL = 1 << 16
"""Learned values and statistics up to this many elements are kept; activations never are."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """What is measured of a norm's input."""

    tokens: Tokens
    statistics: NormRows | None
    rows: torch.Tensor
    input_rows: torch.Tensor


@dataclass(slots=True)
class NormRecord:
    """What one pass saw of one norm."""

    found: DetectedNorm
    tokens: Tokens
    statistics: NormRows | None
    rows: torch.Tensor
    """Indices of the sampled rows."""
    input_rows: torch.Tensor
    output_rows: torch.Tensor | None = None


@dataclass(slots=True)
class AddRecord:
    """What one pass saw of one residual add."""

    found: DetectedAdd
    tokens: Tokens
    statistics: AddRows | None
    rows: torch.Tensor
    skip_rows: torch.Tensor
    branch_rows: torch.Tensor
    out_rows: torch.Tensor
    lead: tuple[int, ...]
    axis: int
    extremes: Extremes | None = None


@dataclass(slots=True)
class Wanted:
    """What to measure beyond structure and replay."""

    stream: bool = True
    norms: bool = True
    values: bool = True
    """False: nothing at all, on the meta device, where there is nothing to measure."""


@dataclass(slots=True)
class SiteObserver:
    """The recorder's observer. Keeps per-token numbers, a few sampled rows, and learned vectors."""

    reading: StructureReader
    layout_of: Callable[[Node], TokenLayout]
    sampler: Sampler
    wanted: Wanted
    norms: dict[DetectedNorm, NormRecord] = field(default_factory=dict)
    adds: dict[DetectedAdd, AddRecord] = field(default_factory=dict)
    values: dict[Node, torch.Tensor] = field(default_factory=dict)
    """Small tensors that are not activations: gains, scales, means per token."""
    recent: dict[Node, torch.Tensor] = field(default_factory=dict)
    """The latest add and norm results: one of them is what the head receives."""
    peaks: dict[Node, torch.Tensor] = field(default_factory=dict)
    """max |value| of what lies between the sites."""
    _slab: Slab = field(default_factory=Slab)
    _scaled: torch.Tensor | None = None
    """x of the latest a x with a learned scalar a: a DyT where a tanh follows."""
    _tanh: tuple[TanhForm, _Seen] | None = None
    """What was seen of the x of the latest DyT."""
    _latest: tuple[DetectedAdd, torch.Tensor, torch.Tensor] | None = None
    """Operands of the latest add: a second branch of the same stream value may follow."""
    _operand: NormOperand = field(default_factory=NormOperand)

    def wants_operand(self, op: str, args: tuple[Any, ...]) -> bool:
        """x of an in-place addition, and what an in-place norm divides."""
        if len(args) < 2 or not (op in ADDITIONS or op in _SCALINGS):
            return False
        a, b = args[0], args[1]
        if not (isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor)):
            return False
        if a.dim() < 2 or not a.is_floating_point():
            return False
        is_statistic = 1 < b.numel() < a.numel() and b.dim() == a.dim()
        return a.shape == b.shape if op in ADDITIONS else is_statistic

    def seen(self, node: Node, args: tuple[Any, ...], output: torch.Tensor) -> None:
        norm = self.reading.detect_norm(node)
        if norm is not None:
            self._keep_learned(node, args)
            if norm.node is node:
                node.line = source_line()
                if self.wanted.values:
                    self._norm(norm, node, args)
            self._norm_output(norm, output)
            return
        if self.wanted.values:
            self._dyt_input(node, args, output)
            if self.wanted.stream and is_peak(node):
                valid = self.layout_of(node).tokens(node.shape[:-1]).valid
                self.peaks[node] = largest(output, valid, self._slab)
        if isinstance(node.form, MeanForm) and output.numel() <= SMALL:
            self.values[node] = output
        elif node.op in _SCALINGS or node.op in ("add", "sub", "rsub", "addcmul", "einsum"):
            self._keep_learned(node, args)
            self._operand.remember(node, args)
        if node.op in ADDITIONS:
            add = self.reading.detect_add(node)
            if add is not None:
                node.line = source_line()
                if self.wanted.values:
                    self._add(add, args, output)
            elif node.is_data and len(node.shape) >= 2:
                node.line = source_line() if self._is_plain(node) else None

    def are_finite(self) -> bool:
        """Whether every measured norm input and add was, padding included."""
        norms = (r.statistics.square_sum for r in self.norms.values() if r.statistics)
        adds = (r.statistics.out_square for r in self.adds.values() if r.statistics)
        return all(bool(torch.isfinite(t).all()) for t in (*norms, *adds))

    def _is_plain(self, node: Node) -> bool:
        plain = self.reading.plain_additions
        return bool(plain) and plain[-1] is node

    def _keep_learned(self, node: Node, args: tuple[Any, ...]) -> None:
        for operand, value in operands(node, args):
            if (
                isinstance(operand, Node)
                and not operand.is_data
                and isinstance(value, torch.Tensor)
                and value.numel() <= SMALL
                and value.is_floating_point()
            ):
                self.values.setdefault(operand, value)

    def _dyt_input(self, node: Node, args: tuple[Any, ...], output: torch.Tensor) -> None:
        """The x of tanh(a x) is there where a x is made, before anything tells of a norm."""
        if isinstance(node.form, TanhForm):
            if self._scaled is not None and self._scaled.shape == node.shape:
                self._tanh = (node.form, self._see(node, self._scaled, (-1,)))
        elif node.op in CASTS:
            return
        self._scaled = None
        if node.op == "mul" and len(node.parents) == 2:
            for x, i in ((args[0], 1), (args[1], 0)):
                if not node.parents[i].is_data and prod(node.parents[i].shape) == 1:
                    is_kept = isinstance(x, torch.Tensor) and x is not output and x.dim() > 1
                    self._scaled = x if is_kept else None

    def _see(
        self, node: Node, x: torch.Tensor, axes: tuple[int, ...], norm: DetectedNorm | None = None
    ) -> _Seen:
        """Statistics and sampled rows of x. Batch norms have a row per channel, not per token."""
        groups = 1 if norm is None else norm.groups
        rows = to_rows(x, axes, groups)
        if norm is not None and norm.kind == "batchnorm":
            tokens = Tokens(None, 1, rows.shape[0], 1, "batch")
        else:
            tokens = self.layout_of(node).tokens(_lead(x, axes), groups)
        statistics = None
        if self.wanted.norms:
            is_centred = norm is not None and norm.is_centred
            statistics = norm_rows(rows, is_centred, tokens.valid, self._slab)
            if norm is not None and norm.kind in ("batchnorm", "groupnorm"):
                channels = (1 - x.dim(),)
                valid = self.layout_of(node).tokens(_lead(x, channels)).valid
                vectors = to_rows(x, channels)
                statistics.by_channel(vectors if valid is None else vectors[valid])
        picked = self.sampler.rows(rows.shape[0], tokens.valid, rows.device)
        return _Seen(tokens, statistics, picked, self._slab.rows(rows, picked))

    def _norm(self, norm: DetectedNorm, node: Node, args: tuple[Any, ...]) -> None:
        if norm.kind == "dyt":
            seen = self._tanh[1] if self._tanh and self._tanh[0].source is norm.source else None
        else:
            x = self._operand.x(norm, args, self.values)
            seen = None if x is None else self._see(node, x, norm.axes, norm)
        if seen is not None:
            self.norms[norm] = NormRecord(
                norm, seen.tokens, seen.statistics, seen.rows, seen.input_rows
            )

    def _norm_output(self, norm: DetectedNorm, output: torch.Tensor) -> None:
        record = self.norms.get(norm)
        if record is not None:
            record.output_rows = self._slab.rows(
                to_rows(output, norm.axes, norm.groups), record.rows
            )
        self._remember(norm.node, output)

    def _remember(self, node: Node, output: torch.Tensor) -> None:
        self.recent.pop(node, None)
        self.recent[node] = output
        while len(self.recent) > 2:
            del self.recent[next(iter(self.recent))]

    def _add(self, add: DetectedAdd, args: tuple[Any, ...], output: torch.Tensor) -> None:
        skip, branch = args[add.skip_index], args[1 - add.skip_index]
        if add.continued_add is not None:
            self.adds.pop(add.continued_add, None)
            if self._latest is None or self._latest[0] is not add.continued_add:
                return
            _, skip, earlier = self._latest
            branch = earlier + args[add.node.args.index(add.branches[-1])]
        elif add.node.op == "sub":
            skip, branch = (skip, -branch) if add.skip_index == 0 else (-skip, branch)
        elif add.node.op in ("lerp", "addcmul"):
            branch = output - skip
        elif add.node.kwargs.get("alpha", 1) != 1 and add.skip_index == 0:
            branch = branch * add.node.kwargs["alpha"]
        if branch.shape != output.shape:
            branch = branch.expand_as(output)
        self._latest = (add, skip, branch)
        axis = feature_axis(add.branches[-1])
        lead = _lead(output, (axis,))
        x, u, y = (to_rows(t, (axis,)) for t in (skip, branch, output))
        tokens = self.layout_of(add.node).tokens(lead)
        statistics = add_rows(x, u, y, tokens, self._slab) if self.wanted.stream else None
        picked = self.sampler.add_rows(y.shape[0], tokens, y.device)
        kept = self._slab.rows
        ends = None
        if statistics is not None:
            ends = extremes((x, u, y), statistics.out_square, tokens.valid, self._slab)
        self.adds[add] = AddRecord(
            add, tokens, statistics, picked,
            kept(x, picked), kept(u, picked), kept(y, picked), lead, axis,
            ends,
        )  # fmt: skip
        self._remember(add.node, output)


def _lead(x: torch.Tensor, axes: tuple[int, ...]) -> tuple[int, ...]:
    rank = x.dim()
    reduced = {a + rank for a in axes}
    return tuple(size for i, size in enumerate(x.shape) if i not in reduced)
