"""The role of each norm relative to the streams; the first role that applies is used."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from normdiag.evidence.architecture import NormRole
from normdiag.structure.algebraic_forms import DetectedNorm
from normdiag.structure.dataflow import trace_dependency
from normdiag.structure.stack_structure import AddStructure, StackStructure


@dataclass(frozen=True, slots=True)
class NormAttachment:
    """The role of a norm and its stack and layer."""

    role: NormRole
    stack: int | None = None
    layer: int | None = None


def assign_norm_roles(
    stacks: list[StackStructure], norms: list[DetectedNorm]
) -> dict[DetectedNorm, NormAttachment]:
    """Assign a role to every norm; `unattached` without a relation to a stream."""
    attachments: dict[DetectedNorm, NormAttachment] = {}
    for i, stack in enumerate(stacks):
        for norm in stack.embedding_norms:
            attachments.setdefault(norm, NormAttachment("embedding", i))
    for i, stack in enumerate(stacks):
        for norm in stack.final_norms:
            attachments.setdefault(norm, NormAttachment("final", i))
    for role, pick in _NORMS_BY_ROLE:
        for i, stack in enumerate(stacks):
            for facts in stack.adds:
                for norm in pick(facts):
                    attachments.setdefault(norm, NormAttachment(role, i, facts.layer))
            for single in stack.single_adds:
                for norm in pick(single.facts):
                    attachments.setdefault(norm, NormAttachment(role, i))
    _assign_upstream_norms(stacks, norms, attachments)
    return {n: attachments.get(n, NormAttachment("unattached")) for n in norms}


def _assign_upstream_norms(
    stacks: list[StackStructure],
    norms: list[DetectedNorm],
    attachments: dict[DetectedNorm, NormAttachment],
) -> None:
    """Assign norms before a stream's start, through weights (ALBERT's factorised embedding)."""
    first_add = min((s.adds[0].add.index for s in stacks), default=0)
    for norm in norms:
        if norm in attachments or norm.index > first_add:
            continue
        output = norm.output or norm.node
        for i, stack in enumerate(stacks):
            start = stack.chain.links[0].source
            if output.index <= start.index and trace_dependency(start, output)[0]:
                attachments[norm] = NormAttachment("embedding", i)
                break


def _input_norms(f: AddStructure) -> tuple[DetectedNorm, ...]:
    return f.input_norms


def _output_norms(f: AddStructure) -> tuple[DetectedNorm, ...]:
    return f.output_norms


def _stream_norms(f: AddStructure) -> tuple[DetectedNorm, ...]:
    return f.stream_norms + f.between_norms


def _skip_norms(f: AddStructure) -> tuple[DetectedNorm, ...]:
    return f.skip_norms


def _qk_norms(f: AddStructure) -> tuple[DetectedNorm, ...]:
    return f.qk_norms


def _inner_norms(f: AddStructure) -> tuple[DetectedNorm, ...]:
    return f.inner_norms


_NORMS_BY_ROLE: tuple[tuple[NormRole, Callable[[AddStructure], tuple[DetectedNorm, ...]]], ...] = (
    ("stream", _stream_norms),
    ("skip", _skip_norms),
    ("branch-output", _output_norms),
    ("branch-input", _input_norms),
    ("qk", _qk_norms),
    ("inner", _inner_norms),
)
