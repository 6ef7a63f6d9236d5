"""What a forward leaves unexplained: additions on the trunk, norms, modules not called."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from torch import nn

from normdiag.evidence.coverage import Coverage, SkippedMeasurement, UnexplainedAdd
from normdiag.graph import Node
from normdiag.measure.passes.forward_structure import ForwardStructure
from normdiag.measure.unused_modules import divide_modules, find_unused_modules
from normdiag.structure.dataflow import step_back, trace_dependency
from normdiag.structure.stack_structure import StackStructure
from normdiag.structure.stream_chains import stream_width
from normdiag.structure.stream_joins import modulation_operands

_MAX_LISTED = 50


def summarise_coverage(
    model: nn.Module, forward: ForwardStructure, skipped: Iterable[SkippedMeasurement]
) -> Coverage:
    """List what one forward leaves unexplained, and what was `skipped`."""
    sites = forward.sites
    used = divide_modules(model, forward.graph)
    return Coverage(
        unexplained_adds=tuple(_unexplained_adds(forward)),
        unexplained_norms=tuple(
            id for norm, id in sites.norms.items() if sites.attachments[norm].role == "unattached"
        ),
        modules_not_called=tuple(used.not_called),
        unused_modules=tuple(find_unused_modules(used, forward)),
        skipped=(*skipped, *_opaque_kernels(forward)),
        operations=len(forward.graph),
    )


def _unexplained_adds(forward: ForwardStructure) -> Iterator[UnexplainedAdd]:
    for node in _additions_on_trunk(forward)[:_MAX_LISTED]:
        yield _describe_addition(
            node,
            "both operands are activations of stream width and neither is computed from the other",
        )
    widths = {stack.chain.width for stack in forward.sites.stacks.values()}
    for add in forward.reader.outside_adds:
        if stream_width(add) in widths:
            yield _describe_addition(add.node, "a residual add outside every stack")


def _describe_addition(node: Node, why: str) -> UnexplainedAdd:
    return UnexplainedAdd(module=node.frame.path, line=node.line, shape=node.shape, why=why)


def _additions_on_trunk(forward: ForwardStructure) -> list[Node]:
    """Additions of stream width on the trunk itself, between a stack's first and last add."""
    stacks = list(forward.sites.stacks.values())
    on_branches = {n for s in stacks for region in s.regions.values() for n in region}
    spans: dict[int, tuple[int, int]] = {}
    for stack in stacks:
        low, high = spans.get(stack.chain.width, (stack.adds[0].add.index, 0))
        spans[stack.chain.width] = (low, max(high, stack.adds[-1].add.index))
    known = {n for s in stacks for n in _conditions(s)}
    ends = [(s, {n.output or n.node for n in s.final_norms}) for s in stacks]
    additions = []
    for node in forward.reader.plain_additions:
        low, high = spans.get(node.shape[-1], (0, 0))
        is_between = low < node.index < high and node not in on_branches
        is_explained = node in known or node.form is not None  # a part of a norm
        is_explained = is_explained or any(_modulates_end(node, *end) for end in ends)
        if (
            is_between
            and not is_explained
            and any(_depends_on_stream(node, stack) for stack in stacks)
            and any(_leads_to_stream(node, stack) for stack in stacks)
        ):
            additions.append(node)
    return additions


def _conditions(stack: StackStructure) -> Iterator[Node]:
    """The sums of the stream with what does not derive from it, on the way between two adds."""
    start = stack.chain.links[0].source
    for link in stack.chain.links:
        for node in link.joins:
            if not all(trace_dependency(p, start)[0] for p in node.parents if p.is_data):
                yield node


def _modulates_end(node: Node, stack: StackStructure, norms: set[Node]) -> bool:
    """Whether a sum shifts the result of a final norm, scaled or not, by a condition."""
    start = stack.chain.links[0].source
    shifted = [p for p in node.parents if p.is_data and trace_dependency(p, start)[0]]
    while len(shifted) == 1 and shifted[0] not in norms:
        value = shifted[0]
        step = step_back(value)
        pair = [] if step is not None else modulation_operands(value)
        shifted = [step[0]] if step else [p for p in pair if trace_dependency(p, start)[0]]
    return len(shifted) == 1


def _depends_on_stream(node: Node, stack: StackStructure) -> bool:
    """False for what is summed beside the stream, such as the condition of one block."""
    return trace_dependency(node, stack.chain.links[0].source)[0]


def _leads_to_stream(node: Node, stack: StackStructure) -> bool:
    """False for what no later add reads, such as the last state of a recurrence."""
    return trace_dependency(stack.adds[-1].add.node, node)[0]


def _opaque_kernels(forward: ForwardStructure) -> list[SkippedMeasurement]:
    """Custom kernels on the stream itself, whose computation the graph does not show."""
    stacks = list(forward.sites.stacks.values())
    on_branches = {n for s in stacks for region in s.regions.values() for n in region}
    low = min((s.adds[0].add.index for s in stacks), default=0)
    high = max((s.adds[-1].add.index for s in stacks), default=0)
    widths = {s.chain.width for s in stacks}
    places: dict[str, list[str]] = {}
    for node in forward.graph.nodes[low:high]:
        on_trunk = node.is_data and node.is_floating and node not in on_branches
        if on_trunk and "::" in node.op and node.shape[-1:] and node.shape[-1] in widths:
            places.setdefault(node.op, []).append(node.frame.path or "the model")
    return [
        SkippedMeasurement(
            what=f"{op} in {', '.join(dict.fromkeys(paths))}",
            why="a kernel that the stream runs through: what it adds or normalises is unknown",
        )
        for op, paths in places.items()
    ]
