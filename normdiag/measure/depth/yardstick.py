"""Growth at initialisation: what the growth of a trained stack is to be measured against."""

from __future__ import annotations

from torch import nn

from normdiag.inputs.batch import Batch
from normdiag.loading.reinitialised import at_initialisation
from normdiag.measure.depth.first_sequence import first_sequence
from normdiag.measure.sites.assembly import growth_of


def growth_at_initialisation(model: nn.Module, batch: Batch, seed: int) -> dict[str, float]:
    """Stack id -> last add over first, with newly drawn weights, on the first sequence.

    The weights live no longer than this call. Raises LoadError where there can be none.
    """
    assembly = first_sequence(at_initialisation(model, seed), batch)
    return {name: growth.total for name, growth in growth_of(assembly).items()}
