"""One model run once under the observer, all tokens sampled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import nn

from normdiag.evidence.measurements import Measurements
from normdiag.inputs.batch import Batch
from normdiag.measure.passes.forward import ForwardPass, RowSampling, run_forward
from normdiag.measure.passes.site_observer import MeasuredQuantities
from normdiag.measure.sites.samples import NormSample
from normdiag.measure.sites.site_statistics import SiteStatistics
from normdiag.measures import DEFAULT_MEASURES, expand_measures
from normdiag.structure.algebraic_forms import DetectedNorm


def accumulate_forward(
    model: nn.Module, *args: Any, tokens: int | None = None, **inputs: Any
) -> SiteStatistics:
    """The statistics of one forward."""
    first = next(iter((*args, *inputs.values())))
    batch = Batch(args=args, inputs=inputs, rows=tuple(range(len(first))))
    forward = run_forward(model, batch, MeasuredQuantities(), RowSampling(tokens))
    return SiteStatistics.from_pass(forward, batch.rows)


def accumulate_passes(passes: Sequence[ForwardPass]) -> SiteStatistics:
    """The statistics of several forwards of one sequence each."""
    statistics = SiteStatistics()
    for number, forward in enumerate(passes):
        statistics.update(forward, (number,))
    return statistics


def measure_sites(
    model: nn.Module, *args: Any, **inputs: Any
) -> tuple[SiteStatistics, Measurements]:
    """The statistics of one forward and what they compute."""
    statistics = accumulate_forward(model, *args, **inputs)
    return statistics, statistics.compute(expand_measures(DEFAULT_MEASURES))


def only_norm(statistics: SiteStatistics) -> tuple[DetectedNorm, NormSample]:
    """The only norm, and its sampled rows of the only forward."""
    ((norm, id),) = statistics.sites.norms.items()
    (sample,) = statistics.norm_samples[id]
    return norm, sample
