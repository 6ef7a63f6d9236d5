"""Pair the stacks, layers, adds and norms of two models.

Pairs are formed by id, else by position in the data flow: the order of stacks, layers, adds and
norms in the forward, and the role of a norm. Stacks of unequal depth are aligned by the
fingerprints of their layers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import TypeVar

from normdiag.evidence.architecture import Norm, ResidualAdd, Stack
from normdiag.report.compare.fingerprints import Fingerprint, compute_fingerprints, label_layers
from normdiag.report.compare.rounding import Rounding
from normdiag.report.report import Report

Site = TypeVar("Site", Norm, ResidualAdd)
Layers = dict[int, int]
"""Layer of the first -> layer of the second."""


@dataclass(frozen=True, slots=True)
class Pairing:
    """Pairs in the order of the first model's forward."""

    stacks: tuple[tuple[Stack, Stack], ...]
    layers: dict[str, Layers]
    """By the first's stack."""
    adds: tuple[tuple[ResidualAdd, ResidualAdd], ...]
    norms: tuple[tuple[Norm, Norm], ...]

    @property
    def is_by_id(self) -> bool:
        """Whether every pair has one id."""
        return all(a.id == b.id for pairs in (self.adds, self.norms) for a, b in pairs)

    @property
    def paired_ids(self) -> dict[str, str]:
        """Ids of the first -> ids of the second: stacks, adds and norms."""
        return {a.id: b.id for pairs in (self.stacks, self.adds, self.norms) for a, b in pairs}


def pair_sites(a: Report, b: Report, rounding: Rounding) -> Pairing:
    """Pair every stack, add and norm of `a` with its counterpart in `b`."""
    ours, theirs = a.architecture, b.architecture
    stacks = tuple(_pair_stacks(ours.stacks, theirs.stacks))
    mine, other = compute_fingerprints(a, rounding), compute_fingerprints(b, rounding)
    layers = {s.id: _pair_layers(mine[s.id], other[t.id]) for s, t in stacks}
    place = _PlaceLookup(stacks, layers)
    return Pairing(
        stacks=stacks,
        layers=layers,
        adds=tuple(_pair_by_place(ours.residual_adds, theirs.residual_adds, place, lambda _: "")),
        norms=tuple(_pair_by_place(ours.norms, theirs.norms, place, lambda norm: norm.role)),
    )


def _pair_stacks(a: Sequence[Stack], b: Sequence[Stack]) -> Iterator[tuple[Stack, Stack]]:
    """Pair stacks by id, then the others by width, then in order."""
    remaining = {stack.id: stack for stack in b}
    matched: dict[str, Stack] = {}
    for is_candidate in (_have_same_id, _have_same_width, _accept_any):
        for stack in a:
            counterpart = next((t for t in remaining.values() if is_candidate(stack, t)), None)
            if stack.id not in matched and counterpart is not None:
                matched[stack.id] = remaining.pop(counterpart.id)
    return ((stack, matched[stack.id]) for stack in a if stack.id in matched)


def _have_same_id(a: Stack, b: Stack) -> bool:
    return a.id == b.id


def _have_same_width(a: Stack, b: Stack) -> bool:
    return a.width == b.width


def _accept_any(a: Stack, b: Stack) -> bool:
    return True


def _pair_layers(a: Sequence[Fingerprint], b: Sequence[Fingerprint]) -> Layers:
    """Pair layers in order; for unequal numbers by matching weights, else the first ones."""
    by_number = dict(zip(range(len(a)), range(len(b)), strict=False))
    if len(a) == len(b):
        return by_number
    matcher = SequenceMatcher(None, *label_layers(a, b), autojunk=False)
    pairs = {
        block.a + i: block.b + i
        for block in matcher.get_matching_blocks()
        for i in range(block.size)
    }
    return pairs if 2 * len(pairs) >= min(len(a), len(b)) else by_number


class _PlaceLookup:
    """Places of sites, expressed as stack and layer of the first model."""

    def __init__(self, stacks: Iterable[tuple[Stack, Stack]], layers: dict[str, Layers]) -> None:
        self._layers = layers
        self._stack_of = {b.id: a.id for a, b in stacks}
        self._layer_of = {
            (stack, second): first
            for stack, pairs in layers.items()
            for first, second in pairs.items()
        }

    def place_in_first(self, site: Norm | ResidualAdd) -> tuple[str | None, int | None]:
        return site.stack, site.layer

    def place_in_second(self, site: Norm | ResidualAdd) -> tuple[str | None, int | None]:
        """The stack and layer of the first; -1 for a layer that has no counterpart."""
        stack = None if site.stack is None else self._stack_of.get(site.stack, "")
        if site.layer is None or stack is None:
            return stack, None
        return stack, self._layer_of.get((stack, site.layer), -1)


def _pair_by_place(
    a: Sequence[Site], b: Sequence[Site], place: _PlaceLookup, role: Callable[[Site], str]
) -> Iterator[tuple[Site, Site]]:
    """Pair sites by id at equal places, then in order by place and role, then by layer alone."""
    remaining = {site.id: site for site in b}
    matched: dict[str, Site] = {}
    for site in a:
        same = remaining.get(site.id)
        if same is not None and place.place_in_second(same) == place.place_in_first(site):
            matched[site.id] = remaining.pop(site.id)
    for name in (role, lambda site: "" if site.layer is not None else role(site)):
        waiting: dict[object, list[Site]] = defaultdict(list)
        for site in remaining.values():
            waiting[place.place_in_second(site), name(site)].append(site)
        for site in a:
            row = waiting[place.place_in_first(site), name(site)]
            if site.id not in matched and row:
                matched[site.id] = remaining.pop(row.pop(0).id)
    return ((site, matched[site.id]) for site in a if site.id in matched)
