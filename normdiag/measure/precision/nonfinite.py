"""The first value that is not finite, at the operation that made it: a second, slower forward.

Run only where the first forward saw such a value. An attention mask's own -inf is not one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from normdiag.capture.recorder import Recorder
from normdiag.capture.scopes import Scopes
from normdiag.capture.source_line import source_line
from normdiag.evidence.nonfinite import FirstNonFinite, Operand
from normdiag.graph import Node
from normdiag.inputs.batch import Batch
from normdiag.measure.passes.forward import bind, call, quiet_model
from normdiag.measure.passes.learned_values import is_learned
from normdiag.measure.statistics.token_layouts import tensors_of
from normdiag.structure.describe import SiteMap
from normdiag.structure.operations import MASKING
from normdiag.structure.residuals import DetectedAdd

_MASK_MAKERS = MASKING | {"full", "full_like", "fill", "scalar_tensor", "new_full", "triu", "tril"}


@dataclass(slots=True)
class _Suspect:
    node: Node
    kind: str
    count: int
    operands: tuple[Operand, ...]
    exact_max: float | None
    line: str | None


@dataclass(slots=True)
class _Watch:
    """An observer that looks at every result."""

    suspects: list[_Suspect] = field(default_factory=list)

    def wants_operand(self, op: str, args: tuple[Any, ...]) -> bool:
        return op in ("add", "sub", "mul", "div")

    def seen(self, node: Node, args: tuple[Any, ...], output: torch.Tensor) -> None:
        if not output.is_floating_point() or not node.is_data or bool(output.isfinite().all()):
            return
        operands = [
            (n, a)
            for n, a in zip(node.args, args, strict=False)
            if isinstance(n, Node) and isinstance(a, torch.Tensor) and a.is_floating_point()
        ]
        has_nan = bool(output.isnan().any())
        data = [a for n, a in operands if n.is_data]
        made_here = all(bool(a.isfinite().all()) for a in data) and not _is_masked(node, operands)
        made_nan = has_nan and not any(bool(a.isnan().any()) for a in data)
        if not made_here and not made_nan:
            return
        if not has_nan and node.op in _MASK_MAKERS:
            return
        self.suspects.append(
            _Suspect(
                node,
                "nan" if has_nan else "inf",
                int(output.numel() - output.isfinite().sum()),
                tuple(_operand(_name(n), a) for n, a in operands),
                _exact(node, operands),
                source_line(),
            )
        )


def _is_masked(node: Node, operands: list[tuple[Node, torch.Tensor]]) -> bool:
    """Whether an infinity is only passed on by adding a mask that no input and no weight made."""
    return node.op in ("add", "sub") and any(
        not n.is_data and not is_learned(n) and bool(a.isinf().any()) for n, a in operands
    )


def _operand(name: str, tensor: torch.Tensor) -> Operand:
    finite = tensor.detach().double()
    finite = finite[finite.isfinite()]
    return Operand(
        name=name,
        min=float(finite.min()) if finite.numel() else None,
        max=float(finite.max()) if finite.numel() else None,
        nonfinite=int(tensor.numel() - finite.numel()),
    )


def _name(node: Node) -> str:
    return node.name or f"{node.frame.path or 'model'}/{node.op}"


def _exact(node: Node, operands: list[tuple[Node, torch.Tensor]]) -> float | None:
    if node.op not in ("add", "sub") or len(operands) != 2:
        return None
    a, b = (t.detach().double() for _, t in operands)
    total = a + b if node.op == "add" else a - b
    return float(total.abs().max())


def locate(model: nn.Module, batch: Batch, sites: SiteMap) -> FirstNonFinite | None:
    """Where the first non-finite value that reaches a site or the output was made."""
    watch = _Watch()
    with quiet_model(model), torch.no_grad(), Scopes(model) as scopes:
        recorder = Recorder(model, scopes, watch)
        bind(recorder, batch)
        with recorder:
            call(model, batch)
    if not watch.suspects:
        return _given(batch)
    found = next((s for s in watch.suspects if s.kind == "nan" or not _only_masks(s)), None)
    return _told(found or watch.suspects[0], sites)


def _given(batch: Batch) -> FirstNonFinite | None:
    """An input that was not finite when it came: no operation is to blame."""
    named = {f"argument {i}": v for i, v in enumerate(batch.args)} | dict(batch.inputs)
    for name, value in named.items():
        for _, tensor in tensors_of(name, value):
            if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
                operand = _operand(name, tensor)
                return FirstNonFinite(
                    operation="input",
                    module=name,
                    line=None,
                    site=None,
                    layer=None,
                    kind="nan" if bool(tensor.isnan().any()) else "inf",
                    count=operand.nonfinite,
                    operands=(operand,),
                    exact_max=None,
                )
    return None


def _only_masks(suspect: _Suspect) -> bool:
    """Whether the value is one of an additive mask: it comes from no weight."""
    stack, seen = [suspect.node], {suspect.node}
    while stack:
        node = stack.pop()
        if node.op == "parameter":
            return False
        fresh = [p for p in node.parents if p not in seen]
        seen.update(fresh)
        stack.extend(fresh)
    return True


def _indices(add: DetectedAdd) -> set[int]:
    """The numbers of all the additions that one write-back is."""
    indices = {add.index}
    while add.continued_add is not None:
        add = add.continued_add
        indices.add(add.index)
    return indices


def _told(suspect: _Suspect, sites: SiteMap) -> FirstNonFinite:
    node = suspect.node
    site = next((i for a, i in sites.adds.items() if node.index in _indices(a)), None)
    layer = None
    for norm, name in sites.norms.items():
        last = norm.output or norm.node
        own = norm.node.frame
        same = (own.path, own.call) == (node.frame.path, node.frame.call)
        if site is None and same and norm.source.index < node.index <= last.index:
            site = name
    ran_in = {(f.path, f.call) for f in node.frame.chain()}
    for stack in sites.stacks.values():
        for i, frame in enumerate(stack.layers.frames):
            if frame is not None and (frame.path, frame.call) in ran_in:
                layer = i
    return FirstNonFinite(
        operation=node.op,
        module=node.frame.path,
        line=suspect.line,
        site=site,
        layer=layer,
        kind=suspect.kind,
        count=suspect.count,
        operands=suspect.operands,
        exact_max=suspect.exact_max,
    )
