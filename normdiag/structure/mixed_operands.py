"""Adds of an older value to an operand inside a branch: the values of the first layer, mixed into
those of the others.

Such an add looks like a residual add around everything between the two layers. But it lies on the
branch of an add of a longer chain, its skip comes from before that branch, and nothing in the
branch adds to its sum: it is no stream there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from normdiag.graph import Node
from normdiag.structure.residual_adds import DetectedAdd


def find_mixed_operands(
    adds: Sequence[DetectedAdd],
    previous: Mapping[DetectedAdd, DetectedAdd | None],
    regions: Mapping[DetectedAdd, set[Node]],
) -> set[DetectedAdd]:
    """Return such adds; `previous`: the add that wrote the skip operand, `regions`: the branches.

    Adds are in the order of the forward.
    """
    following: dict[DetectedAdd, list[DetectedAdd]] = {}
    for add in adds:
        before = previous[add]
        if before is not None:
            following.setdefault(before, []).append(add)
    lengths = _measure_chains(adds, previous, following)
    return {
        add
        for add in adds
        if any(
            add.node in regions[holder]
            and lengths[holder] > lengths[add]
            and _comes_from_outside(add, holder, regions[holder])
            and not any(a.node in regions[holder] for a in following.get(add, ()))
            for holder in adds
        )
    }


def _comes_from_outside(add: DetectedAdd, holder: DetectedAdd, region: set[Node]) -> bool:
    return add.root is not holder.root and add.root not in region


def _measure_chains(
    adds: Sequence[DetectedAdd],
    previous: Mapping[DetectedAdd, DetectedAdd | None],
    following: Mapping[DetectedAdd, Sequence[DetectedAdd]],
) -> dict[DetectedAdd, int]:
    """The number of adds in the longest chain through each add."""
    lengths: dict[DetectedAdd, int] = {}
    for add in adds:
        before = previous[add]
        lengths[add] = 1 + (0 if before is None else lengths[before])
    for add in reversed(adds):
        lengths[add] = max([lengths[add], *(lengths[a] for a in following.get(add, ()))])
    return lengths
