"""The weights whose scale changes nothing but their own gradient."""

from __future__ import annotations

from torch import nn

from normdiag.evidence.invariances import ScaleInvariantWeight
from normdiag.graph import Graph
from normdiag.measure.gradients.gradients import l2_norm
from normdiag.structure.build_architecture import SiteMap
from normdiag.structure.scale_free_weights import find_scale_free_weights as weights_of


def find_scale_free_weights(
    model: nn.Module, graph: Graph, sites: SiteMap
) -> tuple[ScaleInvariantWeight, ...]:
    """Every matrix that feeds only norms, in the order of the model's parameters; ||W||_F."""
    norms = weights_of(graph)
    return tuple(
        ScaleInvariantWeight(
            weight=name, norm=sites.norms[norms[name]], frobenius=l2_norm(parameter)
        )
        for name, parameter in model.named_parameters()
        if name in norms
    )
