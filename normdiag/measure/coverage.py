"""What was not understood: additions on the trunk, norms without a stream, modules never called."""

from __future__ import annotations

from torch import nn

from normdiag.capture.scopes import plain_path
from normdiag.evidence.coverage import Coverage, Skipped, UnexplainedAdd
from normdiag.graph import Node
from normdiag.measure.passes.forward import Pass
from normdiag.structure.describe import SiteMap

_MOST = 50


def cover(model: nn.Module, done: Pass, sites: SiteMap, skipped: list[Skipped]) -> Coverage:
    """The honest margin of one forward."""
    return Coverage(
        unexplained_adds=tuple(
            UnexplainedAdd(
                module=n.frame.path,
                line=n.line,
                shape=n.shape,
                why="both operands are activations of stream width and neither is computed "
                "from the other",
            )
            for n in _unexplained(done, sites)[:_MOST]
        )
        + tuple(
            UnexplainedAdd(
                module=a.node.frame.path,
                line=a.node.line,
                shape=a.node.shape,
                why="a residual add outside every row of repeated layers",
            )
            for a in done.reading.outside_adds
        ),
        unexplained_norms=tuple(
            name for norm, name in sites.norms.items()
            if sites.attachments[norm].role == "unattached"
        ),
        modules_not_called=_not_called(model, done),
        skipped=(*skipped, *_opaque(done, sites)),
        operations=len(done.graph),
    )  # fmt: skip


def _unexplained(done: Pass, sites: SiteMap) -> list[Node]:
    """Additions of stream width on the trunk itself, between a stack's first and last add."""
    stacks = list(sites.stacks.values())
    on_branches = {n for s in stacks for region in s.regions.values() for n in region}
    spans: dict[int, tuple[int, int]] = {}
    for stack in stacks:
        low, high = spans.get(stack.chain.width, (stack.adds[0].add.index, 0))
        spans[stack.chain.width] = (low, max(high, stack.adds[-1].add.index))
    found = []
    for node in done.reading.plain_additions:
        low, high = spans.get(node.shape[-1], (0, 0))
        if low < node.index < high and node not in on_branches:
            found.append(node)
    return found


def _opaque(done: Pass, sites: SiteMap) -> list[Skipped]:
    """Kernels that the stream itself runs through, and that no reading of the graph explains."""
    stacks = list(sites.stacks.values())
    on_branches = {n for s in stacks for region in s.regions.values() for n in region}
    low = min((s.adds[0].add.index for s in stacks), default=0)
    high = max((s.adds[-1].add.index for s in stacks), default=0)
    widths = {s.chain.width for s in stacks}
    places: dict[str, list[str]] = {}
    for node in done.graph.nodes[low:high]:
        on_trunk = node.is_data and node.is_floating and node not in on_branches
        if on_trunk and "::" in node.op and node.shape[-1:] and node.shape[-1] in widths:
            places.setdefault(node.op, []).append(node.frame.path or "the model")
    return [
        Skipped(
            what=f"{op} in {', '.join(dict.fromkeys(paths))}",
            why="a kernel that the stream runs through: what it adds or normalises is not seen",
        )
        for op, paths in places.items()
    ]


def _not_called(model: nn.Module, done: Pass) -> tuple[str, ...]:
    """Modules with parameters of which nothing ran and no parameter was used, outermost first.

    A whole tower that did not run is named itself, and after it the modules inside it.
    """
    used = {
        p.name.rpartition(".")[0]
        for node in done.graph
        for p in node.parents
        if p.op in ("parameter", "buffer") and p.name is not None
    }
    at_work: set[str] = set()
    for path in {*done.graph.calls, *map(plain_path, used)}:
        parts = path.split(".")
        at_work |= {".".join(parts[:end]) for end in range(len(parts) + 1)}
    return tuple(
        path
        for path, module in model.named_modules()
        if plain_path(path) not in at_work and next(module.parameters(), None) is not None
    )
