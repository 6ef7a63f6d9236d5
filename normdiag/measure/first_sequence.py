"""The beginning of the first sequence, with every residual add's rows of the same tokens kept.

What relates adds that lie far apart (a write to the stream's end, a layer's output to its input)
needs them together, which one pass over all tokens cannot keep.
"""

from __future__ import annotations

from torch import nn

from normdiag.measure.assembly import Assembly
from normdiag.measure.forward import Sampling, run
from normdiag.measure.observer import Wanted
from normdiag.sources.batch import Batch
from normdiag.sources.shortened import shortened

POSITIONS = 64


def first_sequence(model: nn.Module, batch: Batch) -> Assembly:
    """One short pass. Its sites have the ids that those of a whole pass have."""
    short = shortened(batch, POSITIONS)
    done = run(model, short, Wanted(stream=True, norms=False), Sampling(first=POSITIONS))
    return Assembly.of(done, short.rows)
