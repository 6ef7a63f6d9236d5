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
    """Return `growth` with the total at initialisation and the ratio to it, or why there is none.

    A model that was loaded with random weights is its own reference.
    """
    if not growth:
        return {}
    if loaded.mode == "random-init":
        totals = {name: law.total for name, law in growth.items()}
    else:
        try:
            totals = measure_growth_at_init(loaded.model, batch, seed)
        except TargetError as error:
            return {name: replace(law, init_note=error.what) for name, law in growth.items()}
    return {
        name: replace(law, init_total=totals[name], total_over_init=law.total / totals[name])
        if totals.get(name)
        else law
        for name, law in growth.items()
    }


def measure_growth_at_init(model: nn.Module, batch: Batch, seed: int) -> dict[str, float]:
    """Stack id -> last add over first, with newly drawn weights, on the first sequence.

    The weights live no longer than this call. Raises LoadError where there can be none.
    """
    quantities = MeasuredQuantities(stream=True, norms=False, peaks=False)
    short = run_first_sequence(reinitialise_model(model, seed), batch, quantities)
    growths = SiteStatistics.from_pass(short, batch.rows).compute_growth()
    return {name: growth.total for name, growth in growths.items()}
