"""The architecture as evidence: stacks, norms and residual adds with their ids."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from normdiag.evidence.architecture import (
    Architecture,
    Doubling,
    Norm,
    NormKind,
    PlacementException,
    ResidualAdd,
    Scale,
    ScaleKind,
    SingleAdd,
    Stack,
    StreamBreak,
)
from normdiag.evidence.epsilon_forms import EpsForm
from normdiag.graph import Graph
from normdiag.structure.algebraic_forms import DetectedNorm, EpsPlace
from normdiag.structure.branch_multipliers import find_multipliers, find_stored_gains
from normdiag.structure.dataflow import trace_dependency
from normdiag.structure.layer_formula import format_add, format_stack
from normdiag.structure.learned_value_reader import LearnedValueReader
from normdiag.structure.norm_roles import NormAttachment, assign_norm_roles
from normdiag.structure.placement import classify_add, classify_stack
from normdiag.structure.residual_adds import DetectedAdd
from normdiag.structure.site_ids import add_ids, norm_ids, stack_ids
from normdiag.structure.stack_structure import StackStructure
from normdiag.structure.stream_breaks import find_stream_breaks
from normdiag.structure.stream_doublings import find_doublings
from normdiag.structure.stream_readers import StreamReaders

_EPS_FORMS: dict[EpsPlace, EpsForm] = {
    "inside": "in-root",
    "outside": "on-root",
    "floor-inside": "floor-in-root",
    "floor": "floor-of-root",
}


@dataclass(slots=True)
class SiteMap:
    """An architecture, and the id of each detected norm and residual add in it."""

    architecture: Architecture
    norms: dict[DetectedNorm, str]
    adds: dict[DetectedAdd, str]
    stacks: dict[str, StackStructure]
    attachments: dict[DetectedNorm, NormAttachment]


def build_architecture(
    graph: Graph,
    norms: list[DetectedNorm],
    stacks: list[StackStructure],
    learned: LearnedValueReader,
) -> SiteMap:
    """Describe all detected norms, adds and stacks, in the order of the forward."""
    ids = norm_ids(graph, norms)
    adds = add_ids(stacks)
    names = stack_ids(stacks)
    attachments = assign_norm_roles(stacks, norms)
    described_adds: list[ResidualAdd] = []
    described_stacks = []
    readers = StreamReaders(graph, stacks)
    for number, (name, stack) in enumerate(zip(names, stacks, strict=True)):
        rows = _describe_adds(name, stack, ids, adds, learned)
        described_adds += rows
        described = _describe_stack(name, stack, rows, ids, attachments)
        read_by = readers.classify_reader(stack, number)
        single = _describe_single_adds(stack, adds)
        described_stacks.append(replace(described, read_by=read_by, single_adds=single))
    order = {a: f.add.index for s in stacks for f in s.adds for a in (adds[f.add],)}
    described_adds.sort(key=lambda a: order[a.id])
    architecture = Architecture(
        stacks=tuple(described_stacks),
        norms=tuple(_describe_norm(n, ids, graph, names, attachments[n], learned) for n in norms),
        residual_adds=tuple(described_adds),
        breaks=tuple(
            StreamBreak(
                first_module=each.ends[0],
                last_module=each.ends[1],
                stack=None if each.stack is None else names[each.stack],
                is_doubled=each.is_doubled,
                is_first=each.is_first,
                contractions=len(each.contractions),
            )
            for each in find_stream_breaks(stacks, norms, graph)
        ),
        doublings=tuple(
            Doubling(module=node.frame.path, line=node.line, stack=names[number])
            for node, number in find_doublings(stacks).items()
        ),
    )
    in_layers = {f.add: adds[f.add] for stack in stacks for f in stack.adds}
    by_name = dict(zip(names, stacks, strict=True))
    return SiteMap(architecture, ids, in_layers, by_name, attachments)


def _describe_single_adds(
    stack: StackStructure, id_of_add: dict[DetectedAdd, str]
) -> tuple[SingleAdd, ...]:
    return tuple(
        SingleAdd(
            id=id_of_add[single.facts.add],
            module=single.path,
            line=single.facts.add.node.line,
            place=single.place,
            layer=single.layer,
        )
        for single in sorted(stack.single_adds, key=lambda s: s.facts.add.index)
    )


def _describe_norm(
    norm: DetectedNorm,
    ids: dict[DetectedNorm, str],
    graph: Graph,
    stacks: list[str],
    attachment: NormAttachment,
    learned: LearnedValueReader,
) -> Norm:
    frame = norm.node.frame
    kind: NormKind = norm.kind  # type: ignore[assignment]
    return Norm(
        id=ids[norm],
        line=norm.node.line,
        axes=norm.axes,
        kind=kind,
        class_=frame.label,
        features=norm.count,
        eps=learned.epsilon_value(norm),
        calls=graph.calls.get(frame.path, 1),
        role=attachment.role,
        gain=learned.gain_summary(norm),
        bias_rms=learned.bias_rms(norm),
        stack=None if attachment.stack is None else stacks[attachment.stack],
        layer=attachment.layer,
        shape=norm.source.shape,
        dtype=norm.source.dtype,
        eps_dtype=norm.eps_dtype,
        is_running=norm.running_var is not None,
        eps_form=_EPS_FORMS[norm.eps_place],
        variance_scale=norm.variance_scale,
        statistic_gain=norm.factor / norm.variance_scale**0.5,
        scaling=None if norm.statistic is None else norm.statistic.name,
        is_centred=None if norm.statistic is None else norm.is_centred,
    )


def _describe_adds(
    name: str,
    stack: StackStructure,
    id_of_norm: dict[DetectedNorm, str],
    id_of_add: dict[DetectedAdd, str],
    learned: LearnedValueReader,
) -> list[ResidualAdd]:
    adds = []
    gains, width = find_stored_gains(id_of_norm), stack.chain.width
    for depth, (facts, path) in enumerate(zip(stack.adds, stack.layers.module_paths, strict=True)):

        def ids_of(norms_of_role: tuple[DetectedNorm, ...]) -> tuple[str, ...]:
            return tuple(id_of_norm[n] for n in norms_of_role)

        adds.append(
            ResidualAdd(
                id=id_of_add[facts.add],
                stack=name,
                layer=facts.layer,
                module=path,
                line=facts.add.node.line,
                depth=depth,
                placement=classify_add(facts),
                input_norms=ids_of(facts.input_norms),
                output_norms=ids_of(facts.output_norms),
                stream_norm=next(iter(ids_of(facts.stream_norms)), None),
                skip_norm=next(iter(ids_of(stack.chain.links[depth].norms)), None),
                inner_norms=ids_of(facts.qk_norms + facts.inner_norms),
                branches=facts.branches,
                skip_scale=learned.scale_summary(facts.skip_factors),
                branch_scale=learned.scale_summary(facts.branch_factors),
                dtype=facts.add.node.dtype,
                is_projected=facts.add.is_projected,
                is_gated=facts.add.is_gated,
                read_weights=learned.stream_weights(facts.read_weights),
                write_weights=learned.stream_weights(facts.write_weights),
                raw_readers=tuple(dict.fromkeys(n.frame.path for n in facts.raw_readers)),
                multipliers=learned.multiplier_values(
                    find_multipliers(stack.regions[facts.add], gains, width)
                ),
            )
        )
    return adds


def _describe_stack(
    name: str,
    stack: StackStructure,
    rows: list[ResidualAdd],
    ids: dict[DetectedNorm, str],
    attachments: dict[DetectedNorm, NormAttachment],
) -> Stack:
    found = classify_stack(stack)
    counted = sorted(counted_norms(stack), key=lambda pair: pair[1].index)  # the first of a tie
    kinds = Counter(n.kind for _, n in counted)
    kind: NormKind | None = kinds.most_common(1)[0][0] if kinds else None  # type: ignore[assignment]
    before = [n for n, a in attachments.items() if a.role == "embedding"]
    at_start = [n for n in before if n in stack.embedding_norms]
    first = at_start or [n for n in before if _feeds_stack(n, stack)]
    embedding = ids[first[0]] if first else None
    return Stack(
        id=name,
        placement=found.placement,
        norm_kind=kind,
        layers=stack.layers.count,
        norms_per_layer=norms_per_layer(stack),
        residual_adds_per_layer=_most_frequent_count(Counter(f.layer for f in stack.adds), stack),
        qk_norm=any(f.qk_norms for f in stack.adds),
        branch_scale=_strongest_scale([r.branch_scale for r in rows]),
        skip_scale=_strongest_scale([r.skip_scale for r in rows]),
        final_norm=ids[stack.final_norms[0]] if stack.final_norms else None,
        embedding_norm=embedding,
        width=stack.chain.width,
        drawing=format_stack(
            [
                format_add(f, r.skip_scale, r.branch_scale)
                for f, r in zip(stack.adds, rows, strict=True)
            ]
        ),
        note=found.note,
        exceptions=tuple(
            PlacementException(layer=rows[i].layer, add=rows[i].id, placement=placement)
            for i, placement in found.exceptions.items()
        ),
        streams=max((f.lanes.count for f in stack.adds if f.lanes is not None), default=1),
        layer_modules=_count_layer_modules(stack),
    )


def _count_layer_modules(stack: StackStructure) -> int | None:
    paths = {frame.path for frame in stack.layers.frames if frame is not None}
    return len(paths) or None


def _feeds_stack(norm: DetectedNorm, stack: StackStructure) -> bool:
    start = stack.chain.links[0].source
    output = norm.output or norm.node
    return output.index <= start.index and trace_dependency(start, output)[0]


def norms_per_layer(stack: StackStructure) -> int:
    """The most frequent number of placed norms per layer."""
    return _most_frequent_count(Counter(layer for layer, _ in counted_norms(stack)), stack)


def counted_norms(stack: StackStructure) -> set[tuple[int, DetectedNorm]]:
    """Layer and norm of all norms that decide placement; without any, those inside the branches."""
    placed = {
        (f.layer, n)
        for f in stack.adds
        for n in (*f.input_norms, *f.output_norms, *f.stream_norms, *f.skip_norms)
    }
    return placed or {(f.layer, n) for f in stack.adds for n in f.inner_norms}


def _most_frequent_count(per_layer: Counter[int], stack: StackStructure) -> int:
    counts = Counter(per_layer.get(i, 0) for i in range(stack.layers.count))
    return max(counts, key=lambda value: (counts[value], value))


def _strongest_scale(scales: list[Scale]) -> ScaleKind:
    kinds = {s.kind for s in scales}
    if "learned" in kinds:
        return "learned"
    return "constant" if "constant" in kinds else "none"
