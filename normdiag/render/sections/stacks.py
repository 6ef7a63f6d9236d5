"""The stacks: what they are made of and how they are normalised."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from normdiag.evidence.architecture import Norm, Stack, StreamReader
from normdiag.render.escape import escape_text
from normdiag.render.page import Page, facts, heading, prose
from normdiag.render.units import count
from normdiag.report.report import Report

_READERS: dict[StreamReader, str] = {
    "norm": "a norm reads what the last layer gives",
    "head": "the head reads what the last layer gives",
    "stack": "another stack reads what the last layer gives",
    "caller": "the model returns what the last layer gives",
}


def section(report: Report, page: Page) -> Iterator[RenderableType]:
    """Yield one block for each stack, with its drawing."""
    architecture = report.architecture
    if not architecture.stacks:
        if architecture.norms:
            yield heading("Stacks")
            alone = count(len(architecture.norms), "norm")
            yield prose(f"None: no residual add was found beside the {alone}.")
        return
    yield heading(
        "Stacks",
        f"{count(len(architecture.norms), 'norm')}, "
        f"{count(len(architecture.residual_adds), 'residual add')} in all",
    )
    for stack in architecture.stacks:
        norms = architecture.norms_of_stack(stack.id)
        yield prose(
            Text.assemble(
                (escape_text(stack.id), "bold"),
                f"  {stack.placement}  ",
                (escape_text(stack.drawing), "bold cyan"),
            )
        )
        yield facts(_lines(stack, norms), indent=4)


def _lines(stack: Stack, norms: list[Norm]) -> Iterator[tuple[str, str]]:
    kind = stack.norm_kind or "no norm"
    yield (
        "layers",
        f"{count(stack.layers, 'layer')} of width {stack.width:,}: "
        f"{count(stack.residual_adds_per_layer, 'add')} and "
        f"{count(stack.norms_per_layer, 'norm')} a layer, {kind}",
    )
    yield "scales", _scales(stack)
    ends = f"{_end('embedding', stack.embedding_norm)}, {_end('final', stack.final_norm)}"
    if stack.final_norm is None and stack.read_by is not None:
        ends += f": {_READERS[stack.read_by]}"
    yield "ends", ends
    roles = Counter(norm.role for norm in norms)
    if roles:
        said = ", ".join(f"{many} {role}" for role, many in roles.items())
        yield "norms", f"{said}; {'with' if stack.qk_norm else 'no'} q/k norms"
    if stack.note is not None:
        yield "note", escape_text(stack.note)


def _scales(stack: Stack) -> str:
    kinds = (("skip", stack.skip_scale), ("branch", stack.branch_scale))
    scaled = [f"{which} scaled ({kind})" for which, kind in kinds if kind != "none"]
    return ", ".join(scaled) or "none"


def _end(which: str, norm: str | None) -> str:
    return f"no {which} norm" if norm is None else f"{which} norm {escape_text(norm)}"
