"""A forward of the first sequence's first tokens that keeps these rows of every residual add.

What relates adds that lie far apart (a write to the end of the stream, the output of a layer to its
input) needs their rows together, and one pass over all tokens cannot keep them.
"""

from __future__ import annotations

from torch import nn

from normdiag.errors import RunError
from normdiag.inputs.batch import Batch
from normdiag.inputs.truncation import truncate_batch
from normdiag.measure.passes.forward import ForwardPass, RowSampling, run_forward
from normdiag.measure.passes.site_observer import MeasuredQuantities

POSITIONS = 64
ROWS_ALONE = MeasuredQuantities(stream=False, norms=False, peaks=False)


def run_first_sequence(
    model: nn.Module, batch: Batch, quantities: MeasuredQuantities = ROWS_ALONE
) -> ForwardPass:
    """Run the first tokens of the first sequence. The sites have the ids of a whole pass.

    A model that takes no other length than the batch's runs the whole batch.
    """
    sampling = RowSampling(first_positions=POSITIONS)
    short = truncate_batch(batch, POSITIONS)
    try:
        return run_forward(model, short, quantities, sampling)
    except RunError:
        return run_forward(model, batch, quantities, sampling)
