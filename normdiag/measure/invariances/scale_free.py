"""The weights whose scale changes nothing but their own gradient."""

from __future__ import annotations

from torch import nn

from normdiag.evidence.invariances import ScaleFree
from normdiag.graph import Graph
from normdiag.measure.gradients.gradients import length
from normdiag.structure.describe import SiteMap
from normdiag.structure.scale_free import scale_free as weights_of


def scale_free(model: nn.Module, graph: Graph, sites: SiteMap) -> tuple[ScaleFree, ...]:
    """Every matrix that feeds only norms, in the order of the model's parameters; ||W||_F."""
    found = weights_of(graph)
    return tuple(
        ScaleFree(weight=name, norm=sites.norms[found[name]], frobenius=length(parameter))
        for name, parameter in model.named_parameters()
        if name in found
    )
