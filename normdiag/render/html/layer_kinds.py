"""The layers of a stack by kind: those with the same norms and adds are one kind."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from normdiag.evidence.architecture import Architecture, Norm, ResidualAdd, Stack


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnAdd:
    """One residual add of a kind of layer, with the norms around it."""

    add: ResidualAdd
    """That of the first layer of the kind."""
    ahead: tuple[Norm, ...]
    """On the stream, where both the skip and the branch read their output."""
    skip: tuple[Norm, ...]
    """On the skip alone."""
    inputs: tuple[Norm, ...]
    outputs: tuple[Norm, ...]
    behind: tuple[Norm, ...]
    """On the sum."""
    inner: tuple[Norm, ...]

    def list_sites(self) -> tuple[str, ...]:
        """Return the ids of the add and its norms."""
        norms = (*self.ahead, *self.skip, *self.inputs, *self.outputs, *self.behind, *self.inner)
        return self.add.id, *(norm.id for norm in norms)

    def describe_kind(self) -> tuple[object, ...]:
        """Return what two adds of one kind have in common."""
        add = self.add
        norms = (self.ahead, self.skip, self.inputs, self.outputs, self.behind, self.inner)
        return (
            *(tuple(norm.kind for norm in each) for each in norms),
            add.branches,
            add.skip_scale.kind,
            add.branch_scale.kind,
            add.is_projected,
            add.is_gated,
            bool(add.raw_readers),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerKind:
    """Layers of one stack that are alike."""

    stack: Stack
    adds: tuple[DrawnAdd, ...]
    """Of the first of them."""
    layers: tuple[int, ...]
    twins: Mapping[str, str]
    """Id of an add or a norm of any of the layers -> that at the same place of the first."""


def list_layer_kinds(architecture: Architecture, stack: Stack) -> tuple[LayerKind, ...]:
    """Return the kinds of layers of a stack, the most frequent first, else as they come."""
    norms = {norm.id: norm for norm in architecture.norms}
    layers: dict[int, list[DrawnAdd]] = {}
    known = {stack.embedding_norm}
    for add in architecture.adds_of_stack(stack.id):
        layers.setdefault(add.layer, []).append(_place_norms(add, norms, known))
        known.add(add.stream_norm)
    kinds: dict[tuple[object, ...], LayerKind] = {}
    for layer, adds in layers.items():
        key = tuple(each.describe_kind() for each in adds)
        kind = kinds.get(key) or LayerKind(stack=stack, adds=tuple(adds), layers=(), twins={})
        pairs = [
            pair
            for one, first in zip(adds, kind.adds, strict=True)
            for pair in zip(one.list_sites(), first.list_sites(), strict=True)
        ]
        kinds[key] = replace(
            kind, layers=(*kind.layers, layer), twins={**kind.twins, **dict(pairs)}
        )
    return tuple(sorted(kinds.values(), key=lambda kind: -len(kind.layers)))


def format_layers(layers: Collection[int]) -> str:
    """Return numbers of layers in words, such as "layers 0-5, 7"."""
    parts = [f"{first}-{last}" if last > first else f"{first}" for first, last in _join(layers)]
    return f"layer{'s' if len(layers) > 1 else ''} {', '.join(parts)}"


def _place_norms(
    add: ResidualAdd, norms: Mapping[str, Norm], known: Collection[str | None]
) -> DrawnAdd:
    """`known`: norms that stand on the stream already: behind an earlier add, or ahead of all."""

    def find(*ids: str | None) -> tuple[Norm, ...]:
        return tuple(norms[id] for id in ids if id is not None and id in norms)

    own = None if add.skip_norm in known else add.skip_norm
    is_shared = own is not None and own in add.input_norms
    drawn_before = {*known, own}
    return DrawnAdd(
        add=add,
        ahead=find(own) if is_shared else (),
        skip=() if is_shared else find(own),
        inputs=find(*(id for id in add.input_norms if id not in drawn_before)),
        outputs=find(*add.output_norms),
        behind=find(add.stream_norm),
        inner=find(*add.inner_norms),
    )


def _join(layers: Collection[int]) -> Iterator[tuple[int, int]]:
    """Ranges of successive numbers."""
    start = last = None
    for layer in sorted(layers):
        if start is None or last is None:
            start = layer
        elif layer != last + 1:
            yield start, last
            start = layer
        last = layer
    if start is not None and last is not None:
        yield start, last
