"""Assignment of residual adds to the runs of a repeated layer.

The repeated layer is the outermost module that separates the adds of a chain, unless it contains
a list of modules that do the same (a stage of blocks). Where no module separates the adds, a
repeated source line does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from normdiag.graph import Frame, Node
from normdiag.structure.aten_operations import is_contraction, mixes_tokens
from normdiag.structure.residual_adds import DetectedAdd

Signature = tuple[str | None, bool]


@dataclass(frozen=True, slots=True)
class LayerAssignment:
    """The repeated layers of one stack."""

    id: str
    layer_of_add: tuple[int, ...]
    """The layer run of each add."""
    modules: tuple[Frame, ...]
    """The module whose path names each add."""
    frames: tuple[Frame | None, ...]
    """The call frame of each layer run; None where layers are not modules."""

    @property
    def count(self) -> int:
        return max(self.layer_of_add) + 1

    def find_layer(self, node: Node) -> int | None:
        """Return the layer run that computed `node`, if any."""
        chain = node.frame.enclosing_frames()
        for i, frame in enumerate(self.frames):
            if frame is not None and frame in chain:
                return i
        return None


def group_by_module_list(adds: Sequence[DetectedAdd]) -> dict[str | None, list[DetectedAdd]]:
    """Group the adds of one chain by the module list that they run in; None: in no list.

    A list is a set of module calls with one parent path: the items of a ModuleList, or one module
    called repeatedly.
    """
    chains = {a: a.node.frame.enclosing_frames() for a in adds}
    siblings: dict[str, set[Frame]] = {}
    for chain in chains.values():
        for frame in _submodule_frames(chain):
            siblings.setdefault(_parent_path(frame), set()).add(frame)
    has_items = any(_is_list_item(f) for chain in chains.values() for f in chain)
    rows: dict[str | None, list[DetectedAdd]] = {}
    for add, chain in chains.items():
        if has_items:
            candidates = [f for f in _submodule_frames(chain) if _is_list_item(f)]
        else:
            candidates = [f for f in _submodule_frames(chain) if len(siblings[_parent_path(f)]) > 1]
            candidates.sort(key=lambda f: -len(siblings[_parent_path(f)]))
        row = _parent_path(candidates[0]) if candidates else None
        rows.setdefault(row, []).append(add)
    return rows


def _submodule_frames(chain: tuple[Frame, ...]) -> list[Frame]:
    """Frames of modules below the model itself."""
    return [f for f in chain if f.path]


def _parent_path(frame: Frame) -> str:
    return frame.path.rpartition(".")[0]


def _is_list_item(frame: Frame) -> bool:
    """Whether the module is an item of a list: its parent path differs from its caller."""
    return (
        frame.parent is not None
        and bool(_parent_path(frame))
        and frame.parent.path != _parent_path(frame)
    )


def assign_layers(
    adds: Sequence[DetectedAdd], regions: dict[DetectedAdd, set[Node]]
) -> LayerAssignment:
    """Assign layer runs to the adds of one chain."""
    chains = [a.node.frame.enclosing_frames() for a in adds]
    depth = _shared_frame_depth(chains)
    lines = {a.node.line for a in adds}
    is_loop = len({c[-1] for c in chains}) == 1 and len(lines) < len(adds)
    if is_loop or any(len(c) <= depth for c in chains):
        return _assign_layers_by_line(adds, regions)
    signatures = [(a.node.line, any(map(mixes_tokens, regions[a]))) for a in adds]
    depth = _descend_into_stages(chains, depth, signatures)
    frames: list[Frame] = []
    of_add: list[int] = []
    for chain in chains:
        frame = chain[depth]
        if not frames or frames[-1] is not frame:
            frames.append(frame)
        of_add.append(len(frames) - 1)
    modules = tuple(c[-1] for c in chains)
    return LayerAssignment(
        common_module_path([f.path for f in frames]), tuple(of_add), modules, tuple(frames)
    )


def _shared_frame_depth(chains: Sequence[tuple[Frame, ...]]) -> int:
    """Number of outer frames that all adds share; the layer of a single add is its innermost."""
    if len({c[-1] for c in chains}) == 1:
        return len(chains[0]) - 1 if len(chains[0]) > 1 else 1
    depth = 0
    while all(len(c) > depth for c in chains) and len({c[depth] for c in chains}) == 1:
        depth += 1
    return depth


def _descend_into_stages(
    chains: Sequence[tuple[Frame, ...]], depth: int, signatures: Sequence[Signature]
) -> int:
    """Increase `depth` while every module there contains a list of modules that do the same."""
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


def common_module_path(paths: Sequence[str]) -> str:
    """The module path that the layers share ("model.layers" for "model.layers.0")."""
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


def _assign_layers_by_line(
    adds: Sequence[DetectedAdd], regions: dict[DetectedAdd, set[Node]]
) -> LayerAssignment:
    """Assign layers that are not modules: each repetition of a source line begins a new layer."""
    runs_of_line: Counter[str | None] = Counter()
    of_add, layer = [], 0
    for add in adds:
        layer = max(layer, runs_of_line[add.node.line])
        runs_of_line[add.node.line] += 1
        of_add.append(layer)
    modules = tuple(_last_contraction_frame(a, regions[a]) for a in adds)
    first = adds[0].node.line
    paths = [m.path for a, m in zip(adds, modules, strict=True) if a.node.line == first]
    return LayerAssignment(common_module_path(paths), tuple(of_add), modules, (None,) * (layer + 1))


def _last_contraction_frame(add: DetectedAdd, region: set[Node]) -> Frame:
    """The module that computed the branch, for an add outside every layer."""
    contractions = [n for n in region if is_contraction(n)]
    return max(contractions, key=lambda n: n.index, default=add.node).frame
