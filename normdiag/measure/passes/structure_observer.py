"""Norms and residual adds detected as their operations run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from normdiag.capture.source_line import source_line
from normdiag.graph import Node
from normdiag.measure.passes.learned_value_store import LearnedValueStore
from normdiag.structure.algebraic_forms import DetectedNorm
from normdiag.structure.aten_operations import ADDITIONS
from normdiag.structure.residual_adds import DetectedAdd, is_doubling
from normdiag.structure.structure_reader import StructureReader

Site = DetectedNorm | DetectedAdd


@dataclass(slots=True)
class StructureObserver:
    """Detects sites and stores the learned values that they use; measures nothing.

    Implements `capture.recorder.OperationObserver`.
    """

    reader: StructureReader = field(default_factory=StructureReader)
    learned: LearnedValueStore = field(default_factory=LearnedValueStore)

    def needs_operand_copy(self, op: str, args: tuple[Any, ...]) -> bool:
        """False: structure does not depend on values."""
        return False

    def observe_operation(self, node: Node, args: tuple[Any, ...], output: torch.Tensor) -> None:
        """Detect the site that `node` is, if any."""
        self.detect_site(node, args, output)

    def detect_site(self, node: Node, args: tuple[Any, ...], output: torch.Tensor) -> Site | None:
        """The norm that `node` completes or extends, or the residual add that it is."""
        norm = self.reader.detect_norm(node)
        if norm is not None:
            self.learned.store_operands(node, args)
            if norm.node is node:
                node.line = source_line()
            return norm
        self.learned.store_operation(node, args, output)
        return self._detect_add(node) if node.op in ADDITIONS else None

    def _detect_add(self, node: Node) -> DetectedAdd | None:
        add = self.reader.detect_add(node)
        if add is not None or self._is_plain_addition(node) or is_doubling(node):
            node.line = source_line()
        return add

    def _is_plain_addition(self, node: Node) -> bool:
        """Whether `node` was just counted among the additions that are no residual adds."""
        additions = self.reader.plain_additions
        return bool(additions) and additions[-1] is node
