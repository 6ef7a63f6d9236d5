"""Growth of the same architecture at random initialisation, a second model of one short forward."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from torch import nn

from normdiag.errors import TargetError
from normdiag.evidence.stream import Growth
from normdiag.inputs.batch import Batch
from normdiag.loading.interface import LoadedModel
from normdiag.loading.reinitialised import reinitialise_model
from normdiag.measure.depth.first_sequence import run_first_sequence
from normdiag.measure.passes.site_observer import MeasuredQuantities
from normdiag.measure.sites.site_statistics import SiteStatistics


def compare_growth_with_init(
    loaded: LoadedModel, batch: Batch, growth: Mapping[str, Growth], seed: int
) -> dict[str, Growth]:
    """Return `growth` with norms and total at initialisation, or why there are none.

    A model that was loaded with random weights is its own reference.
    """
    if not growth:
        return {}
    if loaded.mode == "random-init":
        return {
            name: replace(law, init_total=law.total, total_over_init=1.0)
            for name, law in growth.items()
        }
    try:
        norms = measure_norms_at_init(loaded.model, batch, seed)
    except TargetError as error:
        return {name: replace(law, init_note=error.what) for name, law in growth.items()}
    return {name: _add_reference(law, norms.get(name, {})) for name, law in growth.items()}


def measure_norms_at_init(model: nn.Module, batch: Batch, seed: int) -> dict[str, dict[str, float]]:
    """Stack id -> add id -> mean ||y|| with newly drawn weights, on the first sequence.

    Its first token is left out. Stacks without a law of growth there (values that are 0 or not
    finite) are missing. The weights live no longer than this call. Raises LoadError where there can
    be none.
    """
    quantities = MeasuredQuantities(stream=True, norms=False, peaks=False)
    short = run_first_sequence(reinitialise_model(model, seed), batch, quantities)
    statistics = SiteStatistics.from_pass(short, batch.rows)
    norms = statistics.compute_growth_norms()
    return {stack: norms[stack] for stack in statistics.compute_growth()}


def _add_reference(law: Growth, norms: Mapping[str, float]) -> Growth:
    if not norms:
        return law
    first, *_, last = norms.values()
    return replace(
        law,
        init_norms=dict(norms),
        init_total=last / first,
        total_over_init=law.total / (last / first),
    )
