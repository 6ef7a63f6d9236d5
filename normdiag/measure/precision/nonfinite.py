"""The first non-finite value and the operation that computed it, from a second, slower forward.

Run only where the main pass had such a value. The -inf of an attention mask does not count.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from normdiag.capture.source_line import source_line
from normdiag.evidence.nonfinite import FirstNonFinite, Operand
from normdiag.graph import Node
from normdiag.inputs.batch import Batch
from normdiag.inputs.tensors import iterate_input_tensors
from normdiag.measure.passes.learned_values import is_learned
from normdiag.measure.passes.recorded_forward import record_forward
from normdiag.measure.precision.nonfinite_cause import (
    EXPLAINED_OPERATIONS,
    Explanation,
    explain_nonfinite,
)
from normdiag.structure.aten_operations import MASKING
from normdiag.structure.build_architecture import SiteMap
from normdiag.structure.residual_adds import DetectedAdd

_MASK_OPERATIONS = MASKING | {
    "full",
    "full_like",
    "fill",
    "scalar_tensor",
    "new_full",
    "triu",
    "tril",
}


@dataclass(slots=True)
class _NonFiniteResult:
    """The result of an operation that is not finite though its operands are, or are no NaN."""

    node: Node
    kind: str
    count: int
    operands: tuple[Operand, ...]
    why: Explanation
    line: str | None


@dataclass(slots=True)
class _NonFiniteObserver:
    """Checks every result. Implements `capture.recorder.OperationObserver`."""

    results: list[_NonFiniteResult] = field(default_factory=list)

    def needs_operand_copy(self, op: str, args: tuple[Any, ...]) -> bool:
        """True for the operations whose operands are reported."""
        return op in EXPLAINED_OPERATIONS

    def observe_operation(self, node: Node, args: tuple[Any, ...], output: torch.Tensor) -> None:
        """Note `node` where it is the origin of an infinity or a NaN."""
        if not output.is_floating_point() or not node.is_data:
            return
        output = _widen_float8(output)
        if bool(output.isfinite().all()):
            return
        operands = [
            (n, _widen_float8(a))
            for n, a in zip(node.args, args, strict=False)
            if isinstance(n, Node) and isinstance(a, torch.Tensor) and a.is_floating_point()
        ]
        has_nan = bool(output.isnan().any())
        data = [a for n, a in operands if n.is_data]
        is_first = all(bool(a.isfinite().all()) for a in data) and not _is_masked(node, operands)
        is_first_nan = has_nan and not any(bool(a.isnan().any()) for a in data)
        if not is_first and not is_first_nan:
            return
        if not has_nan and node.op in _MASK_OPERATIONS:
            return
        self.results.append(
            _NonFiniteResult(
                node=node,
                kind="nan" if has_nan else "inf",
                count=int(output.numel() - output.isfinite().sum()),
                operands=tuple(_describe_operand(_describe_node(n), a) for n, a in operands),
                why=explain_nonfinite(node, args, output),
                line=source_line(),
            )
        )


def _widen_float8(tensor: torch.Tensor) -> torch.Tensor:
    """float8 has no arithmetic; every value of it is one of float32."""
    return tensor.float() if tensor.element_size() == 1 else tensor


def _is_masked(node: Node, operands: list[tuple[Node, torch.Tensor]]) -> bool:
    """Whether an infinity is that of an added mask, which derives from no input and no weight."""
    return node.op in ("add", "sub") and any(
        not n.is_data and not is_learned(n) and bool(a.isinf().any()) for n, a in operands
    )


def _describe_operand(name: str, tensor: torch.Tensor) -> Operand:
    finite = tensor.detach().double()
    finite = finite[finite.isfinite()]
    return Operand(
        name=name,
        min=float(finite.min()) if finite.numel() else None,
        max=float(finite.max()) if finite.numel() else None,
        nonfinite=int(tensor.numel() - finite.numel()),
    )


def _describe_node(node: Node) -> str:
    return node.name or f"{node.frame.path or 'model'}/{node.op}"


def locate_first_nonfinite(model: nn.Module, batch: Batch, sites: SiteMap) -> FirstNonFinite | None:
    """The origin of the first non-finite value that reaches a site or the output.

    Raises:
        RunError: forward raised.
    """
    observer = _NonFiniteObserver()
    with torch.no_grad():
        record_forward(model, batch, observer)
    results = observer.results
    if not results:
        return _find_nonfinite_input(batch)
    first = next((r for r in results if r.kind == "nan" or not _is_mask_value(r)), results[0])
    return _describe_origin(first, sites)


def _find_nonfinite_input(batch: Batch) -> FirstNonFinite | None:
    """The first input with a value that is not finite."""
    for name, tensor in iterate_input_tensors(batch):
        if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
            operand = _describe_operand(name, tensor)
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


def _is_mask_value(result: _NonFiniteResult) -> bool:
    """Whether the value belongs to an additive mask: it derives from no weight."""
    stack, visited = [result.node], {result.node}
    while stack:
        node = stack.pop()
        if node.op == "parameter":
            return False
        parents = [p for p in node.parents if p not in visited]
        visited.update(parents)
        stack.extend(parents)
    return True


def _addition_indices(add: DetectedAdd) -> set[int]:
    """Indices of all the additions of one residual add."""
    indices = {add.index}
    while add.continued_add is not None:
        add = add.continued_add
        indices.add(add.index)
    return indices


def _describe_origin(result: _NonFiniteResult, sites: SiteMap) -> FirstNonFinite:
    """Where an operation lies: its module, source line, site and layer."""
    node = result.node
    site = next((i for a, i in sites.adds.items() if node.index in _addition_indices(a)), None)
    layer = None
    for norm, name in sites.norms.items():
        last = norm.output or norm.node
        frame = norm.node.frame
        is_same_call = (frame.path, frame.call) == (node.frame.path, node.frame.call)
        if site is None and is_same_call and norm.source.index < node.index <= last.index:
            site = name
    enclosing = {(f.path, f.call) for f in node.frame.enclosing_frames()}
    for stack in sites.stacks.values():
        for i, layer_frame in enumerate(stack.layers.frames):
            if layer_frame is None:
                continue
            if (layer_frame.path, layer_frame.call) in enclosing:
                layer = i
    return FirstNonFinite(
        operation=node.op,
        module=node.frame.path,
        line=result.line,
        site=site,
        layer=layer,
        kind=result.kind,
        count=result.count,
        operands=result.operands,
        exact_max=result.why.exact_max,
        dtype=node.dtype,
        cause=result.why.cause,
    )
