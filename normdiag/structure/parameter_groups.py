"""Groups of parameters: by the layer that uses them, or by module outside the layers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from normdiag.graph import Graph, Node
from normdiag.structure.algebraic_forms import DetectedNorm, scalar_value
from normdiag.structure.aten_operations import CASTS, VIEWS
from normdiag.structure.stack_structure import StackStructure


def group_parameters(
    graph: Graph, stacks: Mapping[str, StackStructure], names: Iterable[str]
) -> dict[str, str]:
    """Assign a group to each parameter name.

    The group is the path of the only layer that uses the parameter ("<stack>/layer#k" where layers
    are not modules); repeated runs of one module are one layer. Other parameters are grouped by
    the outermost module that contains them and no layer.
    """
    users = _find_using_layers(graph, stacks)
    layers = {layer for used_by in users.values() for layer in used_by}
    groups = {}
    for name in names:
        used_by = users.get(name, set())
        groups[name] = next(iter(used_by)) if len(used_by) == 1 else _outermost_module(name, layers)
    return groups


def _find_using_layers(graph: Graph, stacks: Mapping[str, StackStructure]) -> dict[str, set[str]]:
    """Return the layers that use each parameter, by its name."""
    users: dict[str, set[str]] = {}
    owners = _layers_by_branch(stacks)
    for node in graph:
        read = [p.name for p in node.parents if p.op == "parameter" and p.name is not None]
        layer = (_enclosing_layer(node, stacks) or owners.get(node)) if read else None
        if layer is not None:
            for name in read:
                users.setdefault(name, set()).add(layer)
    return users


def _enclosing_layer(node: Node, stacks: Mapping[str, StackStructure]) -> str | None:
    """The innermost layer module in which `node` ran."""
    running = node.frame.enclosing_frames()
    frames = {frame for stack in stacks.values() for frame in stack.layers.frames if frame}
    return next((frame.path for frame in reversed(running) if frame in frames), None)


def _layers_by_branch(stacks: Mapping[str, StackStructure]) -> dict[Node, str]:
    """Nodes on the branches and norms of each layer, for layers that are not modules."""
    owners: dict[Node, str] = {}
    for name, stack in stacks.items():
        for facts, add in zip(stack.adds, stack.chain.adds, strict=True):
            if stack.layers.frames[facts.layer] is not None:
                continue
            layer = f"{name}/layer#{facts.layer}"
            nodes = set(stack.regions[add])
            for norm in (*facts.stream_norms, *facts.skip_norms, *facts.output_norms):
                nodes |= _norm_nodes(norm)
            for node in nodes:
                owners.setdefault(node, layer)
    for node in list(owners):
        for parent in node.parents:  # a transposed or cast weight lies outside the branch
            if not parent.is_data:
                owners.setdefault(parent, owners[node])
    return owners


def _norm_nodes(norm: DetectedNorm) -> set[Node]:
    """The nodes of one norm that read learned values."""
    nodes = {norm.node}
    node = norm.output
    while node is not None and node not in nodes and node.parents:
        nodes.add(node)
        node = next((p for p in node.parents if p.is_data), None)
    return nodes


def _outermost_module(name: str, layers: set[str]) -> str:
    """The outermost module that contains the parameter and no layer, else the parameter itself."""
    parts = name.split(".")
    of_layers = [layer.split(".") for layer in layers]
    for end in range(1, len(parts)):
        if all(layer[:end] != parts[:end] for layer in of_layers):
            return ".".join(parts[:end])
    return name


def single_parameter_name(parts: list[Node | float]) -> str | None:
    """The parameter that equals a gain or bias of `parts`, up to casts, views and an offset.

    The derivative with respect to it is then that with respect to the gain or bias.
    """
    if len(parts) != 1 or not isinstance(parts[0], Node):
        return None
    node = parts[0]
    while node.parents:
        is_offset = (
            node.op == "add" and len(node.parents) == 1 and scalar_value(node.args[1]) is not None
        )
        if not (is_offset or node.op in CASTS or node.op in VIEWS):
            return None
        node = node.parents[0]
    return node.name if node.op == "parameter" else None
