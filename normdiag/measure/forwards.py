"""Measure forwards of a model in hand: no weights are read or drawn, no checkpoint is opened."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from torch import nn

from normdiag.errors import UsageError
from normdiag.evidence.coverage import SkippedMeasurement
from normdiag.evidence.measurements import Measurements
from normdiag.evidence.nonfinite import FirstNonFinite
from normdiag.inputs.batch import Batch
from normdiag.measure.measuring_steps import MeasuredModel, measure_further
from normdiag.measure.passes.forward import RowSampling, run_forward
from normdiag.measure.passes.site_observer import MeasuredQuantities
from normdiag.measure.precision.nonfinite import locate_first_nonfinite
from normdiag.measure.settings import ForwardSettings
from normdiag.measure.sites.site_accumulators import SiteAccumulators
from normdiag.measure.sites.site_statistics import SiteStatistics
from normdiag.measures import expand_measures
from normdiag.progress import NoProgress, Progress

SAMPLE = 16
"""Tokens on which norm Jacobians, replay and closure are computed, unless all are asked for."""


@dataclass(frozen=True, slots=True)
class ForwardMeasurement:
    """What the forwards of one model gave."""

    statistics: SiteStatistics
    """Norms and adds of the first forward, with the sampled rows of all forwards."""
    measurements: Measurements
    skipped: tuple[SkippedMeasurement, ...]
    """What was asked for and could not be measured."""
    nonfinite_batch: Batch | None
    """The batch of `measurements.first_nonfinite`."""


def measure_forward(
    model: nn.Module,
    batches: Sequence[Batch],
    measures: Iterable[str],
    settings: ForwardSettings | None = None,
    progress: Progress | None = None,
) -> ForwardMeasurement:
    """Run `batches` through `model` and measure what `measures` name.

    The model is left as it was: mode, gradients, hooks and random state. Its weights are read where
    a measure needs them, never all of them, and no second model is built: `init-growth` and
    `defaults`, which take one, are left to `inspect`. Replay of every site and the first
    non-finite value are part of every measurement.

    Args:
        model: any module, in any mode; it runs in eval mode.
        batches: one forward each. Residual adds and norms are those of the first.
        measures: groups and fine measures, see `normdiag.measures`.
        settings: sampling and what losses are computed with.
        progress: receives the tasks and their steps.

    Raises:
        UsageError: an unknown measure, or no batch.
        RunError: the model's forward fails on a batch.
    """
    names = expand_measures(measures)
    settings, progress = settings or ForwardSettings(), progress or NoProgress()
    statistics = _run_batches(model, batches, names, settings, progress)
    progress.start_stage("measuring norms", len(statistics.norm_samples))
    measurements = statistics.compute(names, progress.advance_stage)
    progress.finish_stage()
    skipped = statistics.list_skipped()
    if "stream-adds" in names:
        skipped += statistics.list_unclosed_stacks()
    measured = MeasuredModel(model, batches[0], statistics, settings, progress, names)
    measurements, failed = measure_further(measured, measurements)
    first, batch = _find_first_nonfinite(model, batches, statistics, progress)
    return ForwardMeasurement(
        statistics=statistics,
        measurements=replace(measurements, first_nonfinite=first),
        skipped=(*skipped, *failed),
        nonfinite_batch=batch,
    )


def _run_batches(
    model: nn.Module,
    batches: Sequence[Batch],
    names: frozenset[str],
    settings: ForwardSettings,
    progress: Progress,
) -> SiteStatistics:
    quantities = MeasuredQuantities(
        stream="stream-adds" in names,
        norms="norm-inputs" in names,
        peaks="precision" in names,
        jacobians="norm-jacobians" in names,
        outputs="stream-adds" in names,
    )
    statistics = SiteStatistics(SiteAccumulators(keep_tokens=settings.keep_tokens))
    if not batches:
        raise UsageError("there is nothing to run", "give at least one input or text")
    progress.start_stage("running the model", len(batches))
    for number, batch in enumerate(batches):
        size = None if settings.all_tokens else _sample_size(number, len(batches))
        forward = run_forward(model, batch, quantities, RowSampling(size, settings.seed))
        statistics.update(forward, batch.rows)
        progress.advance_stage()
    progress.finish_stage()
    return statistics


def _sample_size(number: int, passes: int) -> int:
    """How many tokens of one pass are sampled: the sample is shared out over the passes."""
    return max(1, SAMPLE // passes) if number < SAMPLE else 0


def _find_first_nonfinite(
    model: nn.Module, batches: Sequence[Batch], statistics: SiteStatistics, progress: Progress
) -> tuple[FirstNonFinite | None, Batch | None]:
    """One slow forward more, for batches with a value that is not finite alone."""
    for batch in batches:
        if statistics.is_finite(batch.rows):
            continue
        progress.start_stage("looking for the first non-finite value")
        first = locate_first_nonfinite(model, batch, statistics.sites)
        progress.finish_stage()
        if first is not None:
            return first, batch
    return None, None
