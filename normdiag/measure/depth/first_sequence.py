"""The beginning of the first sequence, with every residual add's rows of the same tokens kept.

What relates adds that lie far apart (a write to the stream's end, a layer's output to its input)
needs them together, which one pass over all tokens cannot keep.
"""

from __future__ import annotations

from torch import nn

from normdiag.errors import RunError
from normdiag.inputs.batch import Batch
from normdiag.inputs.truncation import shortened
from normdiag.measure.passes.forward import Sampling, run
from normdiag.measure.passes.observer import Wanted
from normdiag.measure.sites.assembly import Assembly

POSITIONS = 64


def first_sequence(model: nn.Module, batch: Batch) -> Assembly:
    """One short pass. Its sites have the ids that those of a whole pass have.

    A model that takes no other length than the batch's is given the batch.
    """
    wanted, sampling = Wanted(stream=True, norms=False), Sampling(first=POSITIONS)
    short = shortened(batch, POSITIONS)
    try:
        return Assembly.of(run(model, short, wanted, sampling), short.rows)
    except RunError:
        return Assembly.of(run(model, batch, wanted, sampling), batch.rows)
