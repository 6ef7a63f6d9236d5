"""Assignment of residual adds to the runs of a repeated layer.

A layer is the shortest run of adds after which the sequence of branch kinds (mixes tokens, or does
not) starts anew. Modules, or containers of modules, that group the adds in whole such runs are the
layers and name them: the outermost that separate the adds, unless they contain lists of modules
that do the same (stages of blocks). Where they hold one add each, whole runs of them are the
layers; where none separates the adds, the kinds alone decide, or a repeated source line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from normdiag.graph import Frame
from normdiag.structure.branch_scopes import (
    BranchPlaces,
    Scope,
    ScopeChain,
    find_branch_scopes,
    frame_scopes,
)
from normdiag.structure.layer_assignment import LayerAssignment, LayerRun
from normdiag.structure.module_lists import is_list_item
from normdiag.structure.module_tree import parent_path
from normdiag.structure.residual_adds import DetectedAdd

Kind = tuple[str | None, bool]
"""The source line of an add, and whether its branch mixes tokens."""


def assign_layers(
    adds: Sequence[DetectedAdd],
    branches: Mapping[DetectedAdd, BranchPlaces],
    mixing: Collection[DetectedAdd],
) -> tuple[LayerAssignment, list[DetectedAdd]]:
    """Assign layer runs to the adds of one chain; `mixing`: those whose branch mixes tokens.

    Returns the assignment of the adds inside layers, and the adds outside of them.
    """
    chains = find_branch_scopes(branches[a] for a in adds)
    single = _find_single_adds(chains, [a in mixing for a in adds])
    kept = [i for i in range(len(adds)) if i not in single]
    inside = [adds[i] for i in kept]
    chains = [chains[i] for i in kept]
    runs = _find_runs(inside, chains, [a in mixing for a in inside])
    in_runs = {i for run in runs for i in run.adds}
    spare = [a for i, a in enumerate(inside) if i not in in_runs]
    if spare:
        inside = [a for a in inside if a not in spare]
        chains = [c for i, c in enumerate(chains) if i in in_runs]
        runs = _find_runs(inside, chains, [a in mixing for a in inside])
    outside = [a for a in adds if a not in inside]
    return _describe_layers(inside, chains, runs), outside


def _find_single_adds(chains: Sequence[ScopeChain], mixes: Sequence[bool]) -> set[int]:
    """Adds of modules that stand beside the one list in which all others ran."""
    depth = _shared_depth(chains)
    if any(len(c) <= depth for c in chains):
        return set()
    counts = Counter(c[depth].path for c in chains)
    path, most = counts.most_common(1)[0]
    single = {i for i, c in enumerate(chains) if c[depth].path != path}
    items: dict[Scope, list[bool]] = {}
    for chain, kind in zip(chains, mixes, strict=True):
        if chain[depth].path == path and len(chain) > depth + 1:
            items.setdefault(chain[depth + 1], []).append(kind)
    is_list = len(items) > 1 and len({tuple(k) for k in items.values()}) == 1
    are_single = most > 1 and all(n == 1 for p, n in counts.items() if p != path)
    are_apart = all(chains[i][depth].is_part_of_module for i in single)
    return single if is_list and are_single and are_apart else set()


def _describe_layers(
    adds: Sequence[DetectedAdd], chains: Sequence[ScopeChain], runs: Sequence[LayerRun]
) -> LayerAssignment:
    paths = []
    for run in runs:
        for i in run.adds:
            own = adds[i].node.frame
            is_inside = any(s.frame in own.enclosing_frames() for s in run.scopes)
            scope = next((s for s in run.scopes if s in chains[i]), chains[i][-1])
            paths.append(own.path if is_inside else scope.path)
    if runs[0].scopes:
        named = [scope.path for run in runs for scope in run.scopes]
    else:
        named = [chains[run.adds[0]][-1].path for run in runs]
    return LayerAssignment(
        id=common_module_path(named),
        runs=tuple(runs),
        layer_of_add=tuple(n for n, run in enumerate(runs) for _ in run.adds),
        module_paths=tuple(paths),
        starts=tuple(adds[run.adds[0]].root.index for run in runs),
    )


def _find_runs(
    adds: Sequence[DetectedAdd], chains: Sequence[ScopeChain], mixes: Sequence[bool]
) -> list[LayerRun]:
    frames = {a.node.frame for a in adds}
    if len(frames) == 1 and len({a.node.line for a in adds}) == len(adds):
        frame = frames.pop()
        if is_list_item(frame) or find_period(mixes) is None:  # one run of one module
            return [LayerRun(tuple(range(len(adds))), _find_whole_scope(frame, chains))]
    depth = _shared_depth(chains)
    if any(len(c) <= depth for c in chains):
        return _find_runs_by_kind(mixes) or _find_runs_by_line(adds)
    # the innermost scope in which every add itself runs, not its branch alone
    around = min(
        max(i for i, scope in enumerate(chain) if scope.frame in add.node.frame.enclosing_frames())
        for chain, add in zip(chains, adds, strict=True)
    )
    kinds = [(a.node.line, m) for a, m in zip(adds, mixes, strict=True)]
    depth = _choose_depth(chains, depth, kinds, around)
    runs: list[LayerRun] = []
    for i, chain in enumerate(chains):
        scope = chain[depth]
        if runs and runs[-1].scopes[0] is scope:
            runs[-1] = LayerRun((*runs[-1].adds, i), (scope,))
        else:
            runs.append(LayerRun((i,), (scope,)))
    holder = _find_holder(runs)
    if holder is not None and len(set(kinds)) > 1:
        return [LayerRun(tuple(range(len(adds))), (holder,))]
    return runs if depth <= around else _join_single_adds(runs, mixes)


def _find_holder(runs: Sequence[LayerRun]) -> Scope | None:
    """The item of a list that holds all runs, where each is a part of one add."""
    holder = runs[0].scopes[0].parent
    if any(len(run.adds) > 1 or run.scopes[0].parent is not holder for run in runs):
        return None
    return holder if holder is not None and holder.is_item else None


def _find_whole_scope(frame: Frame, chains: Sequence[ScopeChain]) -> tuple[Scope, ...]:
    """The module of a single layer, or the container in it that holds all its branches."""
    inner = chains[0][_shared_depth(chains) - 1] if len(chains) > 1 else None
    if inner is not None and inner.frame is None:
        return (inner,)
    return frame_scopes(frame)[-1:] if frame.path else ()


def _choose_depth(
    chains: Sequence[ScopeChain], outermost: int, kinds: Sequence[Kind], around: int
) -> int:
    """The depth at which scopes are layers: below stages, but not below a module that is one."""
    depth = _descend_into_stages(chains, outermost, kinds, around)
    while depth > outermost and all(c[depth].frame is None for c in chains):
        if _count_scopes(chains, depth) != _count_scopes(chains, depth - 1):
            break
        depth -= 1
    return depth


def _count_scopes(chains: Sequence[ScopeChain], depth: int) -> int:
    return len({c[depth] for c in chains})


def _shared_depth(chains: Sequence[ScopeChain]) -> int:
    """How many outer scopes all chains share."""
    depth = 0
    while all(len(c) > depth for c in chains) and _count_scopes(chains, depth) == 1:
        depth += 1
    return depth


def _join_single_adds(runs: list[LayerRun], mixes: Sequence[bool]) -> list[LayerRun]:
    """Join containers of one add each to whole runs of branch kinds, where these repeat."""
    if any(len(run.adds) > 1 for run in runs):
        return runs
    period = len(runs) if sorted(mixes) == [False, True] else find_period(mixes)
    if period is None or period == 1:
        return runs
    spare = len(runs) % period
    start = spare if spare and not mixes[0] else 0
    joined = []
    for at in range(start, len(runs) - period + 1, period):
        parts = runs[at : at + period]
        scopes = tuple(scope for part in parts for scope in part.scopes)
        are_of_one_list = len({parent_path(s.path) for s in scopes}) == 1
        joined.append(
            LayerRun(
                tuple(i for part in parts for i in part.adds), scopes if are_of_one_list else ()
            )
        )
    return joined


def find_period(kinds: Sequence[bool]) -> int | None:
    """The shortest period with which the kinds repeat at least once as a whole, if any."""
    for period in range(1, len(kinds) // 2 + 1):
        if all(a == b for a, b in zip(kinds, kinds[period:], strict=False)):
            return period
    return None


def _find_runs_by_kind(mixes: Sequence[bool]) -> list[LayerRun]:
    """Runs of adds that no module separates, where their kinds repeat."""
    period = find_period(mixes)
    if period is None or len(mixes) % period:
        return []
    return [LayerRun(tuple(range(at, at + period))) for at in range(0, len(mixes), period)]


def _find_runs_by_line(adds: Sequence[DetectedAdd]) -> list[LayerRun]:
    """Runs of adds that no module separates: each repetition of a source line begins a new one."""
    runs_of_line: Counter[str | None] = Counter()
    runs: list[tuple[int, ...]] = []
    layer = 0
    for i, add in enumerate(adds):
        layer = max(layer, runs_of_line[add.node.line])
        runs_of_line[add.node.line] += 1
        if layer == len(runs):
            runs.append(())
        runs[layer] += (i,)
    return [LayerRun(run) for run in runs]


def _descend_into_stages(
    chains: Sequence[ScopeChain], depth: int, kinds: Sequence[Kind], around: int
) -> int:
    """Increase `depth` while every scope there contains a list of scopes that do the same.

    Below `around`, scopes that separate nothing hold branches alone.
    """
    while all(len(c) > depth + 1 for c in chains):
        rows: dict[Scope, dict[Scope, list[Kind]]] = {}
        for chain, kind in zip(chains, kinds, strict=True):
            rows.setdefault(chain[depth], {}).setdefault(chain[depth + 1], []).append(kind)
        same = {tuple(k) for row in rows.values() for k in row.values()}
        is_wrapped = all(len(row) == 1 for row in rows.values())
        is_list = len({s.path for s in rows}) < len({s.path for row in rows.values() for s in row})
        if is_wrapped and depth >= around and not is_list:
            return depth
        if len(same) > 1 and not is_wrapped and not _hold_several_layers(rows):
            return depth
        depth += 1
    return depth


def _hold_several_layers(rows: Mapping[Scope, Mapping[Scope, Sequence[Kind]]]) -> bool:
    """Whether one list, visited again and again, holds several layers as items of one add each."""
    if len({scope.path for scope in rows}) > 1:
        return False
    for scope, row in rows.items():
        kinds = [k for item in row.values() for _, k in item]
        if (
            scope.frame is not None
            or len(kinds) != len(row)
            or find_period(kinds) in (None, len(kinds))
        ):
            return False
    return True


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
