"""What each norm is for, seen from the streams. The first role that fits is the one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from normdiag.evidence.architecture import Role
from normdiag.structure.attachments import AddFacts, StackFacts
from normdiag.structure.flow import computed_from
from normdiag.structure.forms import NormFound


@dataclass(frozen=True, slots=True)
class Attachment:
    """Where a norm belongs."""

    role: Role
    stack: int | None = None
    layer: int | None = None


def attachments_of(stacks: list[StackFacts], norms: list[NormFound]) -> dict[NormFound, Attachment]:
    """The role of every norm; `unattached` where no stream has to do with it."""
    found: dict[NormFound, Attachment] = {}
    for i, stack in enumerate(stacks):
        for norm in stack.embedding_norms:
            found.setdefault(norm, Attachment("embedding", i))
    for i, stack in enumerate(stacks):
        for norm in stack.final_norms:
            found.setdefault(norm, Attachment("final", i))
    for role, pick in _PICKS:
        for i, stack in enumerate(stacks):
            for facts in stack.adds:
                for norm in pick(facts):
                    found.setdefault(norm, Attachment(role, i, facts.layer))
    _add_upstream(stacks, norms, found)
    return {n: found.get(n, Attachment("unattached")) for n in norms}


def _add_upstream(
    stacks: list[StackFacts], norms: list[NormFound], found: dict[NormFound, Attachment]
) -> None:
    """Norms from which a stream starts, with weights in between (ALBERT's factorised embedding)."""
    first_add = min((s.adds[0].add.index for s in stacks), default=0)
    for norm in norms:
        if norm in found or norm.index > first_add:
            continue
        output = norm.output or norm.node
        for i, stack in enumerate(stacks):
            start = stack.chain.links[0].source
            if output.index <= start.index and computed_from(start, output)[0]:
                found[norm] = Attachment("embedding", i)
                break


def _input(f: AddFacts) -> tuple[NormFound, ...]:
    return f.input_norms


def _output(f: AddFacts) -> tuple[NormFound, ...]:
    return f.output_norms


def _stream(f: AddFacts) -> tuple[NormFound, ...]:
    return f.stream_norms + f.between_norms


def _skip(f: AddFacts) -> tuple[NormFound, ...]:
    return f.skip_norms


def _qk(f: AddFacts) -> tuple[NormFound, ...]:
    return f.qk_norms


def _inner(f: AddFacts) -> tuple[NormFound, ...]:
    return f.inner_norms


_PICKS: tuple[tuple[Role, Callable[[AddFacts], tuple[NormFound, ...]]], ...] = (
    ("stream", _stream),
    ("skip", _skip),
    ("branch-output", _output),
    ("branch-input", _input),
    ("qk", _qk),
    ("inner", _inner),
)
