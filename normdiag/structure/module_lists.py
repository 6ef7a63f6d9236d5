"""Groups of the adds of one chain by the list of modules that they run in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations, groupby

from normdiag.graph import Frame, Node
from normdiag.structure.branch_scopes import BranchPlaces
from normdiag.structure.dataflow import trace_origin
from normdiag.structure.module_tree import parent_path, paths_between
from normdiag.structure.residual_adds import DetectedAdd

Row = tuple[str | None, list[DetectedAdd]]
"""A list of modules, and the adds of one chain that it makes."""


def group_by_module_list(
    adds: Sequence[DetectedAdd],
    regions: Mapping[DetectedAdd, set[Node]],
    branches: Mapping[DetectedAdd, BranchPlaces],
) -> dict[str | None, list[DetectedAdd]]:
    """Group the adds of one chain by the module list that they run in; None: in no list.

    A list is a set of module calls with one parent path: the items of a ModuleList, however deep
    the lists in it, or one module called repeatedly. Beside adds that modules of lists make, an add
    outside of lists belongs to the list that holds its branch.
    """
    chains = {a: a.node.frame.enclosing_frames() for a in adds}
    siblings: dict[str, set[Frame]] = {}
    for chain in chains.values():
        for frame in _submodule_frames(chain):
            siblings.setdefault(parent_path(frame.path), set()).add(frame)
    has_items = any(is_list_item(f) for chain in chains.values() for f in chain)
    rows: dict[str | None, list[DetectedAdd]] = {}
    for add, chain in chains.items():
        row: str | None = None
        if has_items:
            items = [f for f in _submodule_frames(chain) if is_list_item(f)]
            if items:
                row = _list_path(items[0])
            elif not any(other.node in regions[add] for other in regions):  # its branch is no stack
                row = _branch_list(add, branches[add])
        else:
            frames = [f for f in _submodule_frames(chain) if len(siblings[parent_path(f.path)]) > 1]
            frames.sort(key=lambda f: -len(siblings[parent_path(f.path)]))
            row = parent_path(frames[0].path) if frames else None
        rows.setdefault(row, []).append(add)
    return rows


def join_alternating_lists(
    adds: Sequence[DetectedAdd], rows: Mapping[str | None, list[DetectedAdd]]
) -> list[Row]:
    """Join lists of like modules that run in turn along the chain: together they make its layers.

    Alike are those with as many adds at each visit, scaled in both or in neither.
    """
    row_of = {add: row for row, members in rows.items() for add in members}
    visits: list[str | None] = []
    forms: dict[str | None, set[tuple[bool, ...]]] = {}
    for row, members in groupby(adds, key=lambda add: row_of[add]):
        visits.append(row)
        form = tuple(bool(trace_origin(add.branches[-1]).factors) for add in members)
        forms.setdefault(row, set()).add(form)
    joined = list(rows.items())
    for a, b in combinations([row for row in rows if row is not None], 2):
        turns = [row for row, _ in groupby(v for v in visits if v in (a, b))]
        holders = [next(r for r in joined if rows[row][0] in r[1]) for row in (a, b)]
        if len(turns) < 4 or forms[a] != forms[b] or holders[0] is holders[1]:
            continue
        both = {add for _, part in holders for add in part}
        at = joined.index(holders[0])
        joined[at] = (holders[0][0], [add for add in adds if add in both])
        joined.remove(holders[1])
    return joined


def _branch_list(add: DetectedAdd, branch: BranchPlaces) -> str | None:
    """The outermost list, below the innermost module that adds and branches, of the branch.

    The add may stand in a module beside the list: a final norm that adds the last branch first.
    """
    around = add.node.frame.enclosing_frames()
    frames = [frame for _, frame in branch.shared]
    holders = [i for i, frame in enumerate(frames) if frame in around]
    if not holders:
        return None
    return next((path for path, frame in branch.shared[holders[-1] :] if frame is None), None)


def _submodule_frames(chain: tuple[Frame, ...]) -> list[Frame]:
    """Frames of modules below the model itself."""
    return [f for f in chain if f.path]


def _list_path(item: Frame) -> str:
    """The outermost list between an item and the module that calls it."""
    caller = item.parent.path if item.parent is not None else ""
    return next(iter(paths_between(caller, item.path)), parent_path(item.path))


def is_list_item(frame: Frame) -> bool:
    """Whether the module is an item of a list: its parent path differs from its caller."""
    return (
        frame.parent is not None
        and bool(parent_path(frame.path))
        and frame.parent.path != parent_path(frame.path)
    )
