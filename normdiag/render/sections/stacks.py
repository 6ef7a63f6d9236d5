"""The stacks: what they consist of and how they are normalised."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from normdiag.evidence.architecture import (
    Norm,
    PlacementException,
    SingleAdd,
    Stack,
    StreamReader,
)
from normdiag.number_text import format_count
from normdiag.render.elements import Element, Fact, FactList, Heading, Sentence
from normdiag.render.escape import shorten_text
from normdiag.render.sections.stack_names import name_stack
from normdiag.render.sections.stream_weights import tabulate_stream_weights
from normdiag.render.truncated_lines import join_truncated
from normdiag.report.report import Report

_READERS: dict[StreamReader, str] = {
    "norm": "a norm",
    "head": "a linear layer",
    "stack": "another stack",
    "residual-add": "the branch of an add around it",
    "caller": "the caller (model output)",
}


def section(report: Report, *, all_rows: bool) -> Iterator[Element]:
    """Yield placement, drawing and make-up of each stack."""
    architecture = report.architecture
    norms = format_count(len(architecture.norms), "norm")
    if not architecture.stacks:
        if architecture.norms:
            yield Heading(title="Stacks")
            yield Sentence(text=f"None: {norms}, no residual adds.")
        return
    adds = format_count(len(architecture.residual_adds), "residual add")
    yield Heading(title="Stacks", detail=f"{norms}, {adds}")
    for stack in architecture.stacks:
        yield Heading(
            level=3,
            title=name_stack(stack.id),
            detail=f"{stack.placement}  {shorten_text(stack.drawing)}",
        )
        inside = architecture.norms_of_stack(stack.id)
        yield FactList(
            facts=tuple(
                Fact(label=label, lines=(value,)) for label, value in _list_facts(stack, inside)
            )
        )
        yield from tabulate_stream_weights(report, stack, all_rows=all_rows)


def _list_facts(stack: Stack, norms: tuple[Norm, ...]) -> Iterator[tuple[str, str]]:
    yield (
        "layers",
        f"{stack.layers:,} of width {stack.width:,}; per layer "
        f"{format_count(stack.residual_adds_per_layer, 'residual add')} and "
        f"{format_count(stack.norms_per_layer, 'norm')} ({stack.norm_kind or 'no norm'})",
    )
    if stack.streams > 1:
        yield "streams", f"{stack.streams:,}, read and written by each branch with weights"
    modules = stack.layer_modules
    if modules is not None and modules < stack.layers:
        yield (
            "shared",
            f"the {stack.layers:,} layers share the parameters of "
            f"{format_count(modules, 'module')}, called {stack.layers:,} times",
        )
    yield "scales", _describe_scales(stack)
    ends = f"embedding norm: {_name_norm(stack.embedding_norm)}; "
    ends += f"final norm: {_name_norm(stack.final_norm)}"
    if stack.final_norm is None and stack.read_by is not None:
        ends += f"; last value read by {_READERS[stack.read_by]}"
    yield "ends", ends
    roles = Counter(norm.role for norm in norms)
    if roles:
        counts = ", ".join(f"{many} {role}" for role, many in roles.items())
        yield "norms", f"{counts}; q/k norms: {'yes' if stack.qk_norm else 'no'}"
    if stack.single_adds:
        yield "outside", _describe_single_adds(stack.single_adds)
    if stack.exceptions:
        yield "exceptions", join_truncated(list(map(_describe_exception, stack.exceptions)), 4)
    if stack.note is not None:
        yield "note", shorten_text(stack.note)


def _describe_single_adds(adds: tuple[SingleAdd, ...]) -> str:
    """Name the adds outside of layers: they are no part of the series over the depth."""
    places = {"before": "before the layers", "behind": "behind the layers"}
    named = [
        f"{shorten_text(add.id)} {places.get(add.place, f'behind layer {add.layer}')}"
        for add in adds
    ]
    count = format_count(len(adds), "residual add")
    return f"{count} on the stream outside its layers, not measured: {'; '.join(named)}"


def _describe_exception(exception: PlacementException) -> str:
    return f"{shorten_text(exception.add)} (layer {exception.layer:,}) is {exception.placement}"


def _describe_scales(stack: Stack) -> str:
    kinds = (("skip", stack.skip_scale), ("branch", stack.branch_scale))
    return ", ".join(f"{part}: {kind}" for part, kind in kinds if kind != "none") or "none"


def _name_norm(norm: str | None) -> str:
    return "none" if norm is None else shorten_text(norm)
