"""One forward pass of the model, with its norms and residual adds measured as they run."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from normdiag.evidence.weights import TensorFingerprint
from normdiag.inputs.batch import Batch
from normdiag.inputs.tensors import iterate_tensors
from normdiag.measure.passes.forward_structure import ForwardStructure
from normdiag.measure.passes.learned_values import LearnedValues
from normdiag.measure.passes.model_outputs import fingerprint_outputs
from normdiag.measure.passes.recorded_forward import record_forward
from normdiag.measure.passes.records import SiteRecords
from normdiag.measure.passes.row_context import RowContext
from normdiag.measure.passes.site_observer import MeasuredQuantities, SiteObserver
from normdiag.measure.statistics.rows import FirstSequence, Sampler
from normdiag.measure.statistics.token_layouts import TokenLayouts
from normdiag.numerics.finite_values import holds_finite_values


@dataclass(slots=True, kw_only=True)
class ForwardPass(ForwardStructure):
    """Structure and measurements of one forward."""

    records: SiteRecords
    layouts: TokenLayouts
    is_finite: bool
    """Whether every norm input, every sum of an add and the output were finite."""
    outputs: dict[str, TensorFingerprint]
    """Name -> sums of the output's rows; empty where they were not asked for."""


@dataclass(frozen=True, slots=True)
class RowSampling:
    """How many tokens are sampled for replay, closure and Jacobians (None: all), and the seed."""

    tokens: int | None = 16
    seed: int = 0
    first_positions: int | None = None
    """Instead: so many tokens of the first sequence, at residual adds alone."""

    def create_sampler(self) -> Sampler:
        """A new sampler for one pass."""
        if self.first_positions is not None:
            return FirstSequence(self.first_positions)
        return Sampler(self.tokens, self.seed)


def run_forward(
    model: nn.Module, batch: Batch, quantities: MeasuredQuantities, sampling: RowSampling
) -> ForwardPass:
    """Run `model(*args, **inputs)` once without autograd and measure its sites.

    Raises:
        RunError: forward raised.
    """
    layouts = TokenLayouts(batch)
    observer = SiteObserver(RowContext(layouts, sampling.create_sampler()), quantities)
    with torch.no_grad():
        output, graph = record_forward(model, batch, observer)
        observer.finish_pass()
    is_output_finite = all(holds_finite_values(t) for _, t in iterate_tensors("", output))
    return ForwardPass(
        graph=graph,
        reader=observer.structure.reader,
        learned=LearnedValues(observer.structure.learned.values),
        records=observer.records,
        layouts=layouts,
        is_finite=is_output_finite and observer.records.are_finite(),
        outputs=fingerprint_outputs(output, batch) if quantities.outputs else {},
    )
