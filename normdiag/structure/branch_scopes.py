"""The modules and containers that the branch of an add ran in, outermost first.

Calls of modules are not enough: blocks can be lists without a forward, or run by their `forward`,
or be parameters alone. So between two calls, and below the last one, the containers on the path of
what ran there count as well. A container is left when something outside of it runs, or when
something in it runs again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from normdiag.graph import Frame, Node
from normdiag.structure.aten_operations import is_contraction, skip_views
from normdiag.structure.module_tree import is_inside, paths_between
from normdiag.structure.residual_adds import DetectedAdd


@dataclass(frozen=True, slots=True, eq=False)
class Scope:
    """One call of a module, or one visit of a container that is not called itself."""

    path: str
    parent: Scope | None
    frame: Frame | None
    """None: a container."""

    @property
    def is_part_of_module(self) -> bool:
        """Whether it is a module that stands in no container."""
        return self.frame is not None and (self.parent is None or self.parent.frame is not None)

    @property
    def is_item(self) -> bool:
        """Whether it is an item of a container."""
        return self.parent is not None and self.parent.frame is None

    def contains(self, node: Node, around: frozenset[Frame]) -> bool:
        """Whether `node`, with the calls `around` it, was computed in this scope."""
        if self.frame is not None:
            return self.frame in around
        if self.parent is not None and self.parent.frame not in {None, *around}:
            return False
        stored = (p.name or "" for p in node.parents if p.op in ("parameter", "buffer"))
        return any(is_inside(path, self.path) for path in (node.frame.path, *stored))


ScopeChain = tuple[Scope, ...]


Place = tuple[str, Frame | None]


@dataclass(frozen=True, slots=True)
class BranchPlaces:
    """Where the weights of one branch lie."""

    shared: tuple[Place, ...]
    """Calls and containers, outermost first, that all of them share."""
    weights: frozenset[str]
    """Names of the parameters."""


class PlaceFinder:
    """Finds the places of the branches of one forward."""

    def __init__(self) -> None:
        self._calls: dict[Frame, list[Place]] = {}

    def find_places(self, add: DetectedAdd, region: set[Node]) -> BranchPlaces:
        """Return the places of one branch, at least those in which the add ran."""
        weights = {(n.frame, name) for n in region for name in _weight_names(n)}
        reached = weights or {(n.frame, "") for n in region if is_contraction(n)}
        own = self._around(add.node.frame)
        shared: list[Place] | None = None
        for frame, name in reached:
            places = self._around(frame)
            if name:
                places = [*places, *((path, None) for path in paths_between(frame.path, name))]
            shared = places if shared is None else _shared_start(shared, places)
        if shared is None or (own[: len(shared)] == shared and shared[-1][1] is not None):
            shared = own
        return BranchPlaces(tuple(shared), frozenset(name for _, name in weights))

    def _around(self, frame: Frame) -> list[Place]:
        """The calls around a node, with the containers between them."""
        places = self._calls.get(frame)
        if places is None:
            outer = [] if frame.parent is None else self._around(frame.parent)
            caller = "" if frame.parent is None else frame.parent.path
            between = [(path, None) for path in paths_between(caller, frame.path)]
            places = self._calls[frame] = [*outer, *between, (frame.path, frame)]
        return places


def _shared_start(a: list[Place], b: list[Place]) -> list[Place]:
    same = 0
    while same < min(len(a), len(b)) and a[same] == b[same]:
        same += 1
    return a[:same]


def find_branch_scopes(branches: Iterable[BranchPlaces]) -> list[ScopeChain]:
    """Per branch, the scopes around it; branches in the order of the forward."""
    visits = _ScopeVisits()
    return [visits.enter(b.shared, b.weights) for b in branches]


def frame_scopes(frame: Frame) -> ScopeChain:
    """The calls around what runs in `frame`, without containers."""
    chain: tuple[Scope, ...] = ()
    for outer in frame.enclosing_frames():
        chain = (*chain, Scope(outer.path, chain[-1] if chain else None, outer))
    return chain


def _weight_names(node: Node) -> list[str]:
    """Names of the parameters that a contraction reads, through views and casts."""
    if not is_contraction(node):
        return []
    weights = [skip_views(p) for p in node.parents if not p.is_data and len(p.shape) > 1]
    return [w.name or "" for w in weights if w.op == "parameter"]


class _ScopeVisits:
    """Tells repeated visits of one container apart."""

    def __init__(self) -> None:
        self._frames: dict[Frame, Scope] = {}
        self._open: list[Scope] = []
        self._seen: dict[Scope, dict[tuple[str, frozenset[str]], Frame | None]] = {}
        """Which branches each container has held, and in which call."""

    def enter(self, places: Sequence[Place], weights: frozenset[str]) -> ScopeChain:
        """The scopes of one branch, given the branches before it."""
        leaf, call = (places[-1][0], weights), places[-1][1]
        chain: list[Scope] = []
        is_new = False
        for depth, (path, frame) in enumerate(places):
            parent = chain[-1] if chain else None
            before = self._open[depth] if depth < len(self._open) else None
            if frame is not None:
                scope = self._frames.setdefault(frame, Scope(path, parent, frame))
                is_new = is_new or scope is not before
            elif (
                is_new
                or before is None
                or before.path != path
                or before.parent is not parent
                or before.frame is not None
                or self._runs_again(before, leaf, call)
            ):
                scope, is_new = Scope(path, parent, None), True
            else:
                scope = before
            if frame is None:
                self._seen.setdefault(scope, {})[leaf] = call
            chain.append(scope)
        self._open = chain
        return tuple(chain)

    def _runs_again(
        self, scope: Scope, leaf: tuple[str, frozenset[str]], call: Frame | None
    ) -> bool:
        seen = self._seen[scope]
        return leaf in seen and (call is None or seen[leaf] is not call)
