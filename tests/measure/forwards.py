"""One model run once under the observer, all tokens sampled."""

from __future__ import annotations

from typing import Any

from torch import nn

from normdiag.inputs.batch import Batch
from normdiag.measure.passes.forward import Sampling, run
from normdiag.measure.passes.observer import NormRecord, Wanted
from normdiag.measure.sites.assembly import Assembly, assemble, measure
from normdiag.options import MEASURES


def seen(model: nn.Module, *args: Any, tokens: int | None = None, **inputs: Any) -> Assembly:
    """The sites of one forward and what was seen of them."""
    first = next(iter((*args, *inputs.values())))
    batch = Batch(args=args, inputs=inputs, rows=tuple(range(len(first))))
    done = run(model, batch, Wanted(), Sampling(tokens))
    return assemble([done], [batch.rows])


def measured(model: nn.Module, *args: Any, **inputs: Any) -> tuple[Assembly, Any]:
    """The sites, and the Measurements."""
    assembly = seen(model, *args, **inputs)
    return assembly, measure(assembly, MEASURES, lambda: None)


def norm_record(assembly: Assembly) -> NormRecord:
    """What was seen of the only norm."""
    (record,) = [r for records in assembly.norms.values() for r in records]
    return record
