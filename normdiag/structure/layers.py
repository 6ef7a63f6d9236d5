"""Which run of which repeated layer an add belongs to.

The repeated layer is the outermost module that separates the adds of a chain, unless what it
holds is itself a row of modules that do the same (a stage of blocks); where no module separates
the adds, the repeated line of code does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from normdiag.graph import Frame, Node
from normdiag.structure.operations import is_contraction, mixes_tokens
from normdiag.structure.residuals import AddFound

Signature = tuple[str | None, bool]


@dataclass(frozen=True, slots=True)
class Layers:
    """The repeated layers of one stack."""

    id: str
    of_add: tuple[int, ...]
    """The layer run of each add."""
    modules: tuple[Frame, ...]
    """The module that each add is filed under."""
    frames: tuple[Frame | None, ...]
    """The frame of each layer run; None where layers are not modules."""

    @property
    def count(self) -> int:
        return max(self.of_add) + 1

    def layer_of(self, node: Node) -> int | None:
        """The layer run in which `node` was made, if any."""
        chain = node.frame.chain()
        for i, frame in enumerate(self.frames):
            if frame is not None and frame in chain:
                return i
        return None


def repeated(adds: Sequence[AddFound]) -> dict[str | None, list[AddFound]]:
    """The adds of one chain by the row of modules that they run in; None: in no such row.

    A row is a set of calls of modules with one parent path: the items of a list of modules, or
    one module called again and again.
    """
    chains = {a: a.node.frame.chain() for a in adds}
    siblings: dict[str, set[Frame]] = {}
    for chain in chains.values():
        for frame in _modules(chain):
            siblings.setdefault(_row(frame), set()).add(frame)
    has_items = any(_is_item(f) for chain in chains.values() for f in chain)
    rows: dict[str | None, list[AddFound]] = {}
    for add, chain in chains.items():
        if has_items:
            candidates = [f for f in _modules(chain) if _is_item(f)]
        else:
            candidates = [f for f in _modules(chain) if len(siblings[_row(f)]) > 1]
            candidates.sort(key=lambda f: -len(siblings[_row(f)]))
        row = _row(candidates[0]) if candidates else None
        rows.setdefault(row, []).append(add)
    return rows


def _modules(chain: tuple[Frame, ...]) -> list[Frame]:
    """Without the model itself."""
    return [f for f in chain if f.path]


def _row(frame: Frame) -> str:
    return frame.path.rpartition(".")[0]


def _is_item(frame: Frame) -> bool:
    """Whether the module sits in a list: what holds it is not what called it."""
    return frame.parent is not None and bool(_row(frame)) and frame.parent.path != _row(frame)


def layers_of(adds: Sequence[AddFound], regions: dict[AddFound, set[Node]]) -> Layers:
    """Assign layer runs to the adds of one chain."""
    chains = [a.node.frame.chain() for a in adds]
    depth = _common_depth(chains)
    lines = {a.node.line for a in adds}
    is_loop = len({c[-1] for c in chains}) == 1 and len(lines) < len(adds)
    if is_loop or any(len(c) <= depth for c in chains):
        return _by_line(adds, regions)
    signatures = [(a.node.line, any(map(mixes_tokens, regions[a]))) for a in adds]
    depth = _descend(chains, depth, signatures)
    frames: list[Frame] = []
    of_add: list[int] = []
    for chain in chains:
        frame = chain[depth]
        if not frames or frames[-1] is not frame:
            frames.append(frame)
        of_add.append(len(frames) - 1)
    modules = tuple(c[-1] for c in chains)
    return Layers(container([f.path for f in frames]), tuple(of_add), modules, tuple(frames))


def _common_depth(chains: Sequence[tuple[Frame, ...]]) -> int:
    """How many outer frames all adds share; a lone add's innermost frame is its layer."""
    if len({c[-1] for c in chains}) == 1:
        return len(chains[0]) - 1 if len(chains[0]) > 1 else 1
    depth = 0
    while all(len(c) > depth for c in chains) and len({c[depth] for c in chains}) == 1:
        depth += 1
    return depth


def _descend(
    chains: Sequence[tuple[Frame, ...]], depth: int, signatures: Sequence[Signature]
) -> int:
    """Into a stage: while every module at `depth` holds a row of modules that do the same."""
    while all(len(c) > depth + 1 for c in chains):
        rows: dict[Frame, dict[Frame, list[Signature]]] = {}
        for chain, signature in zip(chains, signatures, strict=True):
            row = rows.setdefault(chain[depth], {})
            row.setdefault(chain[depth + 1], []).append(signature)
        kinds = {tuple(s) for row in rows.values() for s in row.values()}
        is_wrapped = all(len(row) == 1 for row in rows.values())
        if len(kinds) > 1 and not is_wrapped:
            return depth
        depth += 1
    return depth


def container(paths: Sequence[str]) -> str:
    """The module path that the layers have in common ("model.layers" of "model.layers.0")."""
    unique = set(paths)
    if len(unique) == 1:
        path = unique.pop()
        head, _, tail = path.rpartition(".")
        return head if tail.isdigit() and head else path
    common: list[str] = []
    for parts in zip(*(p.split(".") for p in sorted(unique)), strict=False):
        if len(set(parts)) > 1:
            break
        common.append(parts[0])
    return ".".join(common)


def _by_line(adds: Sequence[AddFound], regions: dict[AddFound, set[Node]]) -> Layers:
    """Layers without modules: each time the code comes back to a line, a new layer begins."""
    seen: Counter[str | None] = Counter()
    of_add, layer = [], 0
    for add in adds:
        layer = max(layer, seen[add.node.line])
        seen[add.node.line] += 1
        of_add.append(layer)
    modules = tuple(_last_contraction(a, regions[a]) for a in adds)
    first = adds[0].node.line
    paths = [m.path for a, m in zip(adds, modules, strict=True) if a.node.line == first]
    return Layers(container(paths), tuple(of_add), modules, (None,) * (layer + 1))


def _last_contraction(add: AddFound, region: set[Node]) -> Frame:
    """The module that computed the branch, where the add itself ran outside every layer."""
    contractions = [n for n in region if is_contraction(n)]
    return max(contractions, key=lambda n: n.index, default=add.node).frame
