"""The weights on each residual add's branches, weights in the graph and summed up in float64."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import nn

from normdiag.evidence.branch_weights import BranchWeights
from normdiag.graph import Node
from normdiag.loading.offloaded_weights import WeightReader
from normdiag.loading.plain_values import plain_values
from normdiag.structure.algebraic_forms import norm_parameter_names
from normdiag.structure.build_architecture import SiteMap
from normdiag.structure.stack_structure import AddStructure

_CHUNK = 1 << 18
"""Elements that are turned into float64 at a time."""


def measure_branch_weights(model: nn.Module, sites: SiteMap) -> dict[str, BranchWeights]:
    """By add id. Adds without weights of their own (a weightless mixing) are left out."""
    parameters = {n: p for n, p in model.named_parameters() if p.is_floating_point()}
    of_norms = norm_parameter_names(list(sites.norms))
    reader = WeightReader(model)
    sums: dict[str, tuple[float, float]] = {}
    weights = {}
    for stack in sites.stacks.values():
        scales = {row.add: _scale_names(row) for row in stack.adds}
        for add, region in stack.regions.items():
            of_branch = _parameter_names(region) & parameters.keys()
            names = sorted(of_branch - of_norms - scales.get(add, set()))
            for name in names:
                if name not in sums:
                    values = reader.read_values(name, parameters[name])
                    sums[name] = _sum_elements(plain_values(name, values))
            if names:
                weights[sites.adds[add]] = BranchWeights(
                    elements=sum(parameters[name].numel() for name in names),
                    norm=sum(sums[name][0] for name in names) ** 0.5,
                    sum=sum(sums[name][1] for name in names),
                )
    return weights


def _scale_names(row: AddStructure) -> set[str]:
    """The parameters of learned scales on the branch or the skip, which are no branch weights."""
    return {
        name
        for factor in (*row.branch_factors, *row.skip_factors)
        if isinstance(factor.value, Node)
        for name in _iterate_parameter_names(factor.value)
    }


def _parameter_names(region: set[Node]) -> set[str]:
    """The parameters that the nodes of a branch read, through whatever is computed from them."""
    return {
        name
        for node in region
        for parent in node.parents
        for name in _iterate_parameter_names(parent)
    }


def _iterate_parameter_names(node: Node) -> Iterator[str]:
    if node.op == "parameter" and node.name is not None:
        yield node.name
    elif not node.is_data:
        for parent in node.parents:
            yield from _iterate_parameter_names(parent)


def _sum_elements(parameter: torch.Tensor) -> tuple[float, float]:
    """Sum of squares, and sum."""
    square = total = 0.0
    flat = parameter.reshape(-1)
    for start in range(0, flat.numel(), _CHUNK):
        part = flat[start : start + _CHUNK].double()
        square += float(torch.dot(part, part))
        total += float(part.sum())
    return square, total
