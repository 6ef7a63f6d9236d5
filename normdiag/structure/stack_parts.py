"""The stacks that one chain of adds consists of, and the single adds outside their layers.

A chain is one stack, unless lists of other layers make up its parts, or a norm of neither ends one
part before the next (two encoders behind each other).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod

from normdiag.structure.branch_scopes import PlaceFinder
from normdiag.structure.enclosing_adds import drop_inner_adds_by_line
from normdiag.structure.final_norms import find_norms_between_layers, has_norms_behind_layers
from normdiag.structure.layer_assignment import LayerAssignment
from normdiag.structure.module_lists import Row, group_by_module_list, join_alternating_lists
from normdiag.structure.repeated_layers import assign_layers
from normdiag.structure.residual_adds import DetectedAdd
from normdiag.structure.single_adds import LoneAdd
from normdiag.structure.stream_chains import StreamChain, StreamFinder
from normdiag.structure.token_mixing import branch_mixes_tokens


@dataclass(frozen=True, slots=True)
class StackPart:
    """The chain of one stack and its layers."""

    chain: StreamChain
    layers: LayerAssignment
    number: int
    """Which chain it is of."""


class ChainSplitter:
    """Splits the chains of one forward into stacks."""

    def __init__(self, finder: StreamFinder, gated: Collection[DetectedAdd]) -> None:
        """`gated`: adds inside a gated unit, which are no stream alone."""
        self._finder = finder
        self._gated = gated
        places = PlaceFinder()
        self._places = {a: places.find_places(a, finder.regions[a]) for a in finder.adds}
        self._mixing = {a for a in finder.adds if branch_mixes_tokens(a, finder.regions[a])}
        self.lone_adds: list[LoneAdd] = []
        """Adds outside of all layers, so far."""

    def split_chain(self, chain: StreamChain, number: int) -> list[StackPart]:
        """Return the stacks of one chain; its adds outside of layers are kept."""
        adds = drop_inner_adds_by_line(chain.adds, self._finder.enclosing_add)
        by_list = group_by_module_list(adds, self._finder.regions, self._places)
        rows = self._join_rows(join_alternating_lists(adds, by_list))
        parts: list[StackPart] = []
        for row, members in rows:
            if len(adds) == 1 and self._finder.enclosing_add[adds[0]] is not None:
                continue  # an operand inside another add's branch
            is_lone = len(members) == 1 and len(rows) > 1
            if is_lone or (row is None and (len(rows) > 1 or len(members) == 1)):
                self._keep_lone_adds(members, number)
            elif len(members) > 1 or self._is_stream(members[0]):
                parts += self._build_parts(chain, members, number)
        return parts

    def build_part(self, chain: StreamChain, number: int) -> StackPart:
        """Return a chain as one stack."""
        layers, single = assign_layers(chain.adds, self._places, self._mixing)
        if single:
            self._keep_lone_adds(single, number)
            chain = self._finder.extract_chain(chain, [a for a in chain.adds if a not in single])
        return StackPart(chain, layers, number)

    def build_whole_chains(self, chains: Sequence[StreamChain]) -> list[StackPart]:
        """Return each chain that is a stream as one stack, where none has layers."""
        self.lone_adds = []
        free = ((n, c) for n, c in enumerate(chains) if self._is_free(c))
        return [self.build_part(chain, number) for number, chain in free]

    def _is_free(self, chain: StreamChain) -> bool:
        first = chain.adds[0]
        return self._is_stream(first) or (
            len(chain.adds) > 1 and self._finder.enclosing_add[first] is None
        )

    def _is_stream(self, add: DetectedAdd) -> bool:
        return self._finder.enclosing_add[add] is None and add not in self._gated

    def _keep_lone_adds(self, adds: list[DetectedAdd], number: int) -> None:
        """Keep adds, named by the module that adds.

        Where other adds run in it too, what it calls for the branch names the add.
        """
        for add in adds:
            own = add.node.frame
            places = self._places[add].shared
            frames = [frame for _, frame in places]
            below = places[frames.index(own) + 1 :] if own in frames else ()
            path = next((path for path, frame in below if frame is not None), own.path)
            others = (a.node.frame.enclosing_frames() for a in self._places if a is not add)
            if not any(own in around for around in others):
                path = own.path
            self.lone_adds.append(LoneAdd(add, path, number))

    def _build_parts(
        self, chain: StreamChain, adds: list[DetectedAdd], number: int
    ) -> list[StackPart]:
        part = self.build_part(self._finder.extract_chain(chain, adds), number)
        cuts = [0, *_find_cuts(part), len(part.chain.adds)]
        if len(cuts) == 2:
            return [part]
        pieces = [part.chain.adds[a:b] for a, b in pairwise(cuts)]
        return [self.build_part(self._finder.extract_chain(chain, p), number) for p in pieces]

    def _join_rows(self, rows: list[Row]) -> list[Row]:
        """Join lists behind each other whose layers do the same, where nothing lies between."""
        joined: list[Row] = []
        for path, adds in rows:
            if joined and path is not None and self._continues_row(joined[-1], adds):
                joined[-1][1].extend(adds)
            else:
                joined.append((path, list(adds)))
        return joined

    def _continues_row(self, row: Row, adds: list[DetectedAdd]) -> bool:
        last = row[1][-1]
        if row[0] is None or last.index > adds[0].index or min(len(adds), len(row[1])) < 2:
            return False
        link = self._finder.trace_link(adds[0].skip)
        if link.source is not last.node or link.is_altered:
            return False
        if prod(last.node.shape) != prod(adds[0].node.shape):
            return False  # tokens were left out on the way
        before = assign_layers(row[1], self._places, self._mixing)[0]
        after = assign_layers(adds, self._places, self._mixing)[0]
        if any(before.find_layer(n.node) is None for n in link.norms):
            return False
        return self._usual_kinds(row[1], before) == self._usual_kinds(adds, after)

    def _usual_kinds(self, adds: list[DetectedAdd], layers: LayerAssignment) -> tuple[bool, ...]:
        """The kinds of the adds of most layers."""
        kinds = Counter(tuple(adds[i] in self._mixing for i in run.adds) for run in layers.runs)
        return kinds.most_common(1)[0][0]


def _find_cuts(part: StackPart) -> list[int]:
    """Adds with which another part begins: a norm outside of all layers ends the one before it.

    Such a norm between two passes over the same modules, or behind most layers, ends no part; nor
    does one between two single layers, unless it ends the module that holds the first.
    """
    chain, layers = part.chain, part.layers
    if not layers.has_scopes or has_norms_behind_layers(chain, layers):
        return []
    cuts = [i for i in find_norms_between_layers(chain, layers) if not chain.links[i].is_altered]
    bounds = [0, *cuts, len(chain.adds)]
    pieces = [slice(a, b) for a, b in pairwise(bounds)]
    paths = [set(layers.module_paths[p]) for p in pieces]
    if sum(map(len, paths)) > len(set().union(*paths)):
        return []
    are_short = any(len(set(layers.layer_of_add[p])) < 2 for p in pieces)
    return [i for i in cuts if not are_short or _ends_module(chain, i)]


def _ends_module(chain: StreamChain, link: int) -> bool:
    """Whether a norm on the link runs in a module of the adds before that the next is not in."""
    before, after = (set(chain.adds[i].node.frame.enclosing_frames()) for i in (link - 1, link))
    around = [set(n.node.frame.enclosing_frames()) for n in chain.links[link].norms]
    return any(frames & before - after for frames in around)
