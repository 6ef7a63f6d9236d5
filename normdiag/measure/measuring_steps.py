"""What is measured after the main pass: one step per measure, and each may fail alone."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace

from torch import nn

from normdiag.evidence.coverage import SkippedMeasurement
from normdiag.evidence.gradients import Gradients
from normdiag.evidence.invariances import Invariances
from normdiag.evidence.measurements import Measurements
from normdiag.evidence.precision import Precision
from normdiag.inputs.batch import Batch
from normdiag.loading.offloaded_weights import has_offloaded_weights
from normdiag.measure.blocks.blocks import DEPTHS, count_spans, measure_blocks
from normdiag.measure.branch_weights import measure_branch_weights
from normdiag.measure.depth.depth import relate_layers
from normdiag.measure.gradients.backward import measure_gradients
from normdiag.measure.gradients.loss import TriedTokens
from normdiag.measure.invariances.centring import measure_centring
from normdiag.measure.invariances.invariances import measure_invariances
from normdiag.measure.invariances.norm_speed import measure_norm_speed
from normdiag.measure.invariances.norm_swap import measure_norm_swap, prepare_plain_forward
from normdiag.measure.invariances.plain_forward import PlainForward
from normdiag.measure.precision.attention_logits import MeasuredLogits, measure_attention_logits
from normdiag.measure.precision.logit_bounds import compute_logit_bounds
from normdiag.measure.precision.precision import measure_precision
from normdiag.measure.settings import ForwardSettings
from normdiag.measure.sites.site_statistics import SiteStatistics
from normdiag.progress import Progress

StepResult = tuple[Measurements, Sequence[SkippedMeasurement]]


_OFFLOADED = "needs all weights in memory at once, and some are offloaded (see --device-map)"


@dataclass(slots=True)
class SharedForwards:
    """What one step leaves to another, so that no forward runs twice."""

    tokens: TriedTokens = field(default_factory=TriedTokens)
    """What the choice of a loss tried."""
    plain: PlainForward | None = None


@dataclass(frozen=True, slots=True)
class MeasuredModel:
    """A model after its main pass."""

    model: nn.Module
    batch: Batch
    """The first one, of which the shorter passes run a part."""
    statistics: SiteStatistics
    settings: ForwardSettings
    progress: Progress
    measures: Collection[str]
    """The fine ones that were asked for."""
    shared: SharedForwards = field(default_factory=SharedForwards)

    def prepare_plain_forward(self) -> PlainForward | None:
        """What a forward of the batch as it is tells the swap of the norms."""
        if self.shared.plain is None:
            self.shared.plain = prepare_plain_forward(
                self.model, self.batch, self.statistics, self.settings, self.shared.tokens
            )
        return self.shared.plain


@dataclass(frozen=True, slots=True)
class MeasuringStep:
    """How one measure is added to the measurements of the main pass."""

    measure: str
    label: str
    """Of the task, as a progress bar shows it."""
    extend: Callable[[MeasuredModel, Measurements], StepResult]
    count_units: Callable[[MeasuredModel], int | None] = lambda _: None
    """Of progress; None where that is not known."""
    needs_all_weights: bool = False
    """Whether all weights must be in memory at once, as for a backward pass."""


def measure_further(measured: MeasuredModel, measurements: Measurements) -> StepResult:
    """Return `measurements` with the steps of the measures that were asked for; what failed."""
    skipped: list[SkippedMeasurement] = []
    is_offloaded = has_offloaded_weights(measured.model)
    for step in STEPS:
        if step.measure in measured.measures and is_offloaded and step.needs_all_weights:
            skipped.append(SkippedMeasurement(what=step.measure, why=_OFFLOADED))
        elif step.measure in measured.measures:
            measured.progress.start_stage(step.label, step.count_units(measured))
            measurements, failed = step.extend(measured, measurements)
            skipped += failed
            measured.progress.finish_stage()
    return measurements, skipped


def _add_gradients(measured: MeasuredModel, measurements: Measurements) -> StepResult:
    outcome = measure_gradients(
        measured.model, measured.batch, measured.settings, measured.shared.tokens
    )
    if isinstance(outcome, Gradients):
        return replace(measurements, gradients=outcome), []
    return measurements, [outcome]


def _add_depth(measured: MeasuredModel, measurements: Measurements) -> StepResult:
    return relate_layers(measured.model, measured.batch, measurements)


def _add_precision(measured: MeasuredModel, measurements: Measurements) -> StepResult:
    return replace(measurements, precision=measure_precision(measured.statistics, measurements)), []


def _add_attention_logits(measured: MeasuredModel, measurements: Measurements) -> StepResult:
    sites, learned = measured.statistics.sites, measured.statistics.learned_values
    plain = measured.prepare_plain_forward() if "centring-swap" in measured.measures else None
    beside = plain if plain is not None and plain.batch is measured.batch else None
    logits = measure_attention_logits(measured.model, measured.batch, sites, beside)
    failed = [logits] if isinstance(logits, SkippedMeasurement) else []
    if isinstance(logits, SkippedMeasurement):
        logits = MeasuredLogits({}, {})
    bounds = compute_logit_bounds(sites, learned, logits.by_product)
    if measurements.precision is not None or bounds:
        precision = measurements.precision or Precision(formats={})
        precision = replace(precision, logit_bounds=bounds)
        measurements = replace(measurements, precision=precision)
    return replace(measurements, attention_logits=logits.by_module), failed


def _add_branch_weights(measured: MeasuredModel, measurements: Measurements) -> StepResult:
    weights = measure_branch_weights(measured.model, measured.statistics.sites)
    return replace(measurements, branch_weights=weights), []


def _add_blocks(measured: MeasuredModel, measurements: Measurements) -> StepResult:
    blocks, skipped = measure_blocks(
        measured.model, measured.batch, measured.progress.advance_stage
    )
    return replace(measurements, blocks=blocks), skipped


def _add_invariances(measured: MeasuredModel, measurements: Measurements) -> StepResult:
    invariances = measure_invariances(
        measured.model, measured.batch, measured.statistics, measurements.norms
    )
    return replace(measurements, invariances=invariances), []


def _add_centring(measured: MeasuredModel, measurements: Measurements) -> StepResult:
    centring = measure_centring(measured.statistics.sites.architecture, measurements.norms)
    invariances = replace(measurements.invariances or Invariances(), centring=centring)
    measurements = replace(measurements, invariances=invariances)
    swap = measure_norm_swap(measured.model, measured.prepare_plain_forward(), measured.statistics)
    if isinstance(swap, SkippedMeasurement):
        return measurements, [swap]
    return replace(measurements, norm_swap=swap), []


def _add_norm_speed(measured: MeasuredModel, measurements: Measurements) -> StepResult:
    speed = measure_norm_speed(measured.model, measured.statistics.sites)
    return replace(measurements, norm_speed=speed), []


# The gradients come first: they need the most memory, and what others leave behind would add to it.
STEPS = (
    MeasuringStep("gradients", "computing gradients", _add_gradients, needs_all_weights=True),
    MeasuringStep("depth", "relating the layers", _add_depth),
    MeasuringStep("precision", "comparing number formats", _add_precision),
    MeasuringStep("attention-logits", "reading attention logits", _add_attention_logits),
    MeasuringStep("branch-weights", "summing weights", _add_branch_weights),
    MeasuringStep(
        "block-jacobians",
        "differentiating the blocks",
        _add_blocks,
        lambda measured: len(DEPTHS) * count_spans(measured.statistics.sites.architecture),
        needs_all_weights=True,
    ),
    MeasuringStep("invariances", "testing invariances", _add_invariances),
    MeasuringStep("centring-swap", "swapping the norms", _add_centring),
    MeasuringStep("norm-speed", "timing the norms", _add_norm_speed),
)
