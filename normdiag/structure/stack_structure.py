"""Norms, scales and branches of every residual add of a stack."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from normdiag.graph import Node
from normdiag.structure.algebraic_forms import DetectedNorm, scalar_value
from normdiag.structure.aten_operations import (
    ATTENTION,
    is_contraction,
    is_score_product,
    mixes_tokens,
)
from normdiag.structure.copied_streams import find_streams
from normdiag.structure.dataflow import (
    ScaleFactor,
    nodes_between,
    step_back,
    trace_origin,
)
from normdiag.structure.final_norms import find_final_norms, has_norms_behind_layers
from normdiag.structure.gates import step_past_gate
from normdiag.structure.layer_assignment import LayerAssignment
from normdiag.structure.raw_readers import find_raw_readers
from normdiag.structure.residual_adds import DetectedAdd, branch_summands, step_past_bias
from normdiag.structure.stream_chains import StreamChain, StreamFinder
from normdiag.structure.stream_joins import find_modulated
from normdiag.structure.stream_lanes import StreamLanes
from normdiag.structure.stream_weights import LaneWeights, find_read_weights, find_write_weights

if TYPE_CHECKING:
    from normdiag.structure.single_adds import SingleAddStructure


@dataclass(slots=True)
class AddStructure:
    """One residual add with the norms around it, its scales and its branches."""

    add: DetectedAdd
    layer: int
    input_norms: tuple[DetectedNorm, ...]
    output_norms: tuple[DetectedNorm, ...]
    inner_norms: tuple[DetectedNorm, ...]
    qk_norms: tuple[DetectedNorm, ...]
    stream_norms: tuple[DetectedNorm, ...]
    skip_norms: tuple[DetectedNorm, ...]
    branches: int
    is_parallel: bool
    skip_factors: tuple[ScaleFactor, ...]
    branch_factors: tuple[ScaleFactor, ...]
    between_norms: tuple[DetectedNorm, ...] = ()
    """Norms on the stream between two passes over the layers, listed with the last add."""
    is_interpolation: bool = False
    """x + a (F(x) - x), or one interpolation: the branch subtracts the stream."""
    lanes: StreamLanes | None = None
    """The streams that its value holds, where there are several."""
    read_weights: LaneWeights | None = None
    """Of the streams in what the branch reads."""
    write_weights: LaneWeights | None = None
    """Of the branch's output in each stream."""
    raw_readers: tuple[Node, ...] = ()
    """Contractions with weights that read x past the input norms."""


@dataclass(slots=True)
class StackStructure:
    """One chain with the structure of all its adds."""

    chain: StreamChain
    layers: LayerAssignment
    adds: list[AddStructure]
    embedding_norms: tuple[DetectedNorm, ...]
    final_norms: tuple[DetectedNorm, ...]
    regions: dict[DetectedAdd, set[Node]]
    """The nodes on the branch of each add."""
    single_adds: list[SingleAddStructure] = field(default_factory=list)
    """Adds on the stream outside the layers."""


def build_stack_structure(
    chain: StreamChain, layers: LayerAssignment, finder: StreamFinder
) -> StackStructure:
    """Collect the structure of every add of one chain."""
    is_next_owner = _assign_link_norms(chain, layers)
    facts = [
        build_add_structure(add, layer, finder)
        for add, layer in zip(chain.adds, layers.layer_of_add, strict=True)
    ]
    embedding: tuple[DetectedNorm, ...] = ()
    between_passes: list[DetectedNorm] = []
    are_apart_rare = layers.has_scopes and not has_norms_behind_layers(chain, layers)
    for i, link in enumerate(chain.links):
        owned_by_next = is_next_owner[i]
        facts[i].skip_factors = _skip_factors(chain.adds[i], finder)
        if i and are_apart_rare:
            apart = [n for n in link.norms if layers.find_layer(n.node) is None]
            between_passes += apart
            link = replace(link, norms=tuple(n for n in link.norms if n not in apart))
        if not link.norms:
            continue
        if i == 0:
            inside = tuple(n for n in link.norms if layers.find_layer(n.node) is not None)
            facts[0].skip_norms = inside[:1]
            embedding = tuple(n for n in link.norms if n not in inside)
        elif owned_by_next:
            facts[i].skip_norms = link.norms
        else:
            facts[i - 1].stream_norms = link.norms[::-1]
    if layers.count > 1 and not any(f.skip_norms for f in facts[1:]):
        # only the first layer has one: it is the embedding norm, wherever it is called
        embedding += facts[0].skip_norms
        facts[0].skip_norms = ()
    last, final = find_final_norms(chain, layers, finder)
    facts[-1].stream_norms = last
    for closing in _rare_closing_adds(facts, layers.count):
        between_passes += closing.stream_norms
        if closing is facts[-1]:
            final = (*last, *final)
        closing.stream_norms = ()
    facts[-1].between_norms = tuple(between_passes)
    regions = {a: finder.regions[a] for a in chain.adds}
    return StackStructure(chain, layers, facts, embedding, final, regions)


def _rare_closing_adds(facts: list[AddStructure], layers: int) -> list[AddStructure]:
    """Adds with a norm of their own at the end of a layer whose stream norm most layers lack."""
    last_of = {f.layer: f for f in facts}
    closed = [f for f in last_of.values() if f.stream_norms and (f.input_norms or f.output_norms)]
    return closed if 2 * len(closed) <= layers else []


def _assign_link_norms(chain: StreamChain, layers: LayerAssignment) -> list[bool]:
    """Per link, whether its norms belong to the add after it rather than to the one before.

    Where both adds are in one layer, the majority of the links between layers decides.
    """
    votes = []
    for i, link in enumerate(chain.links):
        if i and link.norms and layers.layer_of_add[i] != layers.layer_of_add[i - 1]:
            at = layers.find_layer(link.norms[0].node)
            votes.append(at == layers.layer_of_add[i])
    if not votes and chain.links[0].norms:
        # one layer only: a norm before its first add, inside the layer, belongs to that add
        votes = [layers.find_layer(chain.links[0].norms[0].node) is not None]
    majority = sum(votes) * 2 > len(votes)
    owners = []
    for i, link in enumerate(chain.links):
        if i and link.norms and layers.layer_of_add[i] != layers.layer_of_add[i - 1]:
            owners.append(layers.find_layer(link.norms[0].node) == layers.layer_of_add[i])
        else:
            owners.append(majority)
    return owners


def build_add_structure(add: DetectedAdd, layer: int, finder: StreamFinder) -> AddStructure:
    """Collect the norms, scales and branches of one add; its stream's norms are left out."""
    region = finder.regions[add]
    outputs: list[DetectedNorm] = []
    factors = _addition_factors(add)
    terms: list[Node] = []
    is_interpolation = add.node.op == "lerp"
    for branch in add.branches:
        end = _trace_branch_end(branch, add.root, finder)
        outputs += [n for n in end.norms if n.node in region]
        factors += end.factors
        is_interpolation = is_interpolation or end.subtracts_stream
        summed = branch_summands(end.node, add.root)
        if len(summed) > 1:
            ends = [_trace_branch_end(term, add.root, finder) for term in summed]
            outputs += [n for e in ends for n in e.norms if n.node in region]
        terms += summed
    inside = [n for n in finder.norm_of.values() if n.node in region and n not in outputs]
    inputs = [n for n in inside if _reads_stream(n, add)]
    rest = [n for n in inside if n not in inputs]
    qk = [n for n in rest if _is_qk(n, region)]
    inner = [n for n in rest if n not in qk]
    count, parallel = _count_branches(terms, add)
    lanes = find_streams(add, finder)
    return AddStructure(
        add, layer, tuple(inputs), tuple(outputs), tuple(inner), tuple(qk), (), (),
        count, parallel, (), tuple(factors), is_interpolation=is_interpolation,
        lanes=lanes,
        read_weights=None if lanes is None else find_read_weights(add, lanes.count),
        write_weights=None if lanes is None else find_write_weights(add, lanes.count),
        raw_readers=find_raw_readers(add, region, inside) if inputs and not add.is_gated else (),
    )  # fmt: skip


@dataclass(slots=True)
class _BranchEnd:
    """End of a branch: the norms and scales that its output passes last."""

    node: Node
    norms: list[DetectedNorm] = field(default_factory=list)
    factors: list[ScaleFactor] = field(default_factory=list)
    subtracts_stream: bool = False
    """Whether the stream itself is subtracted from the output."""


def _trace_branch_end(branch: Node, root: Node, finder: StreamFinder) -> _BranchEnd:
    end = _BranchEnd(branch)
    while True:
        node = end.node
        norm = finder.norm_by_output.get(node) or finder.norm_of.get(node)
        if norm is not None:
            end.norms.append(norm)
            end.node = norm.source
            continue
        step = step_back(node) or step_past_gate(node)
        if step is not None:
            end.node, factor = step
            if factor is not None:
                end.factors.append(factor)
        elif (modulated := find_modulated(node, root)) is not None:
            end.node = modulated
        elif (
            node.op == "sub"
            and len(node.parents) == 2
            and trace_origin(node.parents[1]).node is root
        ):
            end.subtracts_stream = True
            end.node = node.parents[0]
        else:
            return end


def _reads_stream(norm: DetectedNorm, add: DetectedAdd) -> bool:
    """Whether the norm reads the stream without a contraction in between."""
    start = trace_origin(norm.source).node
    if start is add.root:
        return True
    way = nodes_between(add.root, start)
    return bool(way) and not any(is_contraction(n) for n in way if n is not add.root)


def _is_qk(norm: DetectedNorm, region: set[Node]) -> bool:
    """Whether the norm's output enters a query-key product before any weight matrix."""
    if norm.kind == "batchnorm":
        return False
    output = norm.output or norm.node
    reached = {output}
    for node in sorted((n for n in region if n.index > output.index), key=lambda n: n.index):
        if not any(p in reached for p in node.parents):
            continue
        if is_score_product(node) and (node.op in ATTENTION or min(node.shape[-2:]) > 1):
            return True
        if not is_contraction(node):
            reached.add(node)
    return False


def _count_branches(terms: Sequence[Node], add: DetectedAdd) -> tuple[int, bool]:
    """Count the branches that are summed and tell whether attention and MLP run in parallel.

    Sums of branches of one kind (shared and routed experts) count as one branch.
    """
    if len(terms) < 2:
        return 1, False
    kinds = [any(map(mixes_tokens, nodes_between(add.root, t) - {add.root})) for t in terms]
    if all(kinds) or not any(kinds):
        return max(1, len(add.branches)), False
    mixing = sum(kinds)
    return max(len(add.branches), mixing + 1), True


def _skip_factors(add: DetectedAdd, finder: StreamFinder) -> tuple[ScaleFactor, ...]:
    """Scales on the skip connection behind the branch point: alpha of alpha x + beta u."""
    region = finder.regions[add]
    factors: list[ScaleFactor] = []
    node = add.skip
    while node is not add.root and node not in region:
        step = step_back(node)
        if step is None:
            biased = step_past_bias(node)
            if biased is None:
                break
            step = biased, None
        node, factor = step
        if factor is not None:
            factors.append(factor)
    return tuple(factors)


def _addition_factors(add: DetectedAdd) -> list[ScaleFactor]:
    """Scale that the addition applies to its second operand (`alpha` of torch.add)."""
    times = scalar_value(add.node.kwargs.get("alpha", 1))
    if times is None or times == 1.0 or add.skip_index != 0:
        return []
    return [ScaleFactor(times)]
