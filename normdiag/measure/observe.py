"""A loaded target observed: what its forwards, its stored tensors and its configuration tell."""

from __future__ import annotations

from dataclasses import replace

from normdiag.evidence.coverage import Coverage, SkippedMeasurement
from normdiag.evidence.evidence import Evidence
from normdiag.evidence.measurements import Measurements
from normdiag.evidence.subject import Subject
from normdiag.evidence.tokens import TokenTrace
from normdiag.inputs.batch import Batch
from normdiag.inputs.input_requirements import config_value
from normdiag.inputs.model_inputs import build_inputs
from normdiag.loading.interface import CheckpointTensors, LoadedModel
from normdiag.measure.comparing.snapshot import Snapshot
from normdiag.measure.coverage import summarise_coverage
from normdiag.measure.defaults import DefaultsResult, measure_defaults
from normdiag.measure.depth.growth_at_init import compare_growth_with_init
from normdiag.measure.forwards import ForwardMeasurement, measure_forward
from normdiag.measure.passes.model_outputs import compute_outputs
from normdiag.measure.precision.in_float32 import find_float32_peak
from normdiag.measure.settings import ForwardSettings
from normdiag.measure.sites.site_statistics import SiteStatistics
from normdiag.measure.sites.tokens import InputSequence
from normdiag.measure.subject import TargetName, describe_checkpoint, describe_model
from normdiag.measure.weights import check_tensors
from normdiag.measures import DEFAULT_MEASURES, expand_measures, sort_measures
from normdiag.options import Options
from normdiag.progress import Progress


def observe_weights(
    loaded: CheckpointTensors, target: str, options: Options, progress: Progress
) -> Evidence:
    """Check the stored tensors; nothing is run."""
    progress.start_stage("reading tensors")
    weights, digest = check_tensors(loaded.tensors({}), {}, keep_vectors=True)
    progress.finish_stage()
    why = "only the weights were read (--weights-only); no forward was run"
    skipped = (
        SkippedMeasurement(what=what, why=why) for what in ("architecture", *DEFAULT_MEASURES)
    )
    name = TargetName(target, digest, options.command)
    return Evidence(
        subject=describe_checkpoint(loaded, name, weights),
        measurements=Measurements(weights=weights),
        coverage=Coverage(skipped=tuple(skipped)),
    )


def observe_model(
    loaded: LoadedModel,
    target: str,
    options: Options,
    progress: Progress,
    *,
    with_tokens: bool = False,
    snapshot: Snapshot | None = None,
) -> Evidence:
    """Make the inputs, run them through the model and measure what the options ask for.

    `snapshot` receives the values that another model is compared with.
    """
    inputs = build_inputs(loaded, options)
    settings = ForwardSettings(
        seed=options.seed,
        all_tokens=options.all_tokens,
        keep_tokens=with_tokens,
        clip=options.clip,
        mask_token=_find_mask_token(loaded),
    )
    forward = measure_forward(loaded.model, inputs.batches, options.measure, settings, progress)
    statistics = forward.statistics
    if snapshot is not None:
        snapshot.store(statistics, inputs.batches)
        snapshot.outputs = compute_outputs(loaded.model, inputs.batches)
    measurements = _compare_with_other_models(loaded, inputs.batches[0], forward, options, progress)
    progress.start_stage("reading tensors")
    in_memory = loaded.model.state_dict()
    weights, digest = check_tensors(
        loaded.tensors(in_memory),
        in_memory,
        keep_vectors=False,
        buffers=dict(loaded.model.named_buffers()),
    )
    progress.finish_stage()
    if options.measure:
        measurements = replace(measurements, weights=weights)
    defaults = measure_defaults(
        loaded, inputs.batches[0], statistics.sites.architecture, options.measure, progress
    )
    name = TargetName(target, digest, options.command)
    return Evidence(
        subject=_with_defaults(
            describe_model(loaded, name, inputs, statistics.first_pass), defaults
        ),
        architecture=statistics.sites.architecture,
        measurements=measurements,
        coverage=_summarise_coverage(loaded, forward, options, defaults),
        trace=_trace_tokens(inputs.batches, statistics) if with_tokens else (),
    )


def _find_mask_token(loaded: LoadedModel) -> int | None:
    """The id that the tokenizer, or the configuration, has for a masked token."""
    mask = getattr(loaded.tokenizer, "mask_token_id", None)
    if mask is None:
        mask = config_value(loaded.config, "mask_token_id")
    return mask if isinstance(mask, int) else None


def _with_defaults(subject: Subject, defaults: DefaultsResult) -> Subject:
    if defaults is None or isinstance(defaults, SkippedMeasurement):
        return subject
    return replace(subject, loading=replace(subject.loading, defaulted=defaults))


def _summarise_coverage(
    loaded: LoadedModel, forward: ForwardMeasurement, options: Options, defaults: DefaultsResult
) -> Coverage:
    skipped, measures = [*forward.skipped], expand_measures(options.measure)
    if isinstance(defaults, SkippedMeasurement):
        skipped.append(defaults)
    elif defaults is not None:
        measures |= {"defaults"}
    coverage = summarise_coverage(loaded.model, forward.statistics.first_pass, skipped)
    return replace(coverage, measures=sort_measures(measures))


def _compare_with_other_models(
    loaded: LoadedModel,
    batch: Batch,
    forward: ForwardMeasurement,
    options: Options,
    progress: Progress,
) -> Measurements:
    """With what takes a second model: new random weights, or a copy in float32."""
    measurements = forward.measurements
    if "init-growth" in expand_measures(options.measure):
        progress.start_stage("running the model at initialisation")
        growth = compare_growth_with_init(loaded, batch, measurements.growth, options.seed)
        measurements = replace(measurements, growth=growth)
        progress.finish_stage()
    first = measurements.first_nonfinite
    if first is not None and forward.nonfinite_batch is not None:
        peak = find_float32_peak(loaded.model, forward.nonfinite_batch)
        measurements = replace(measurements, first_nonfinite=replace(first, in_float32=peak))
    return measurements


def _trace_tokens(batches: tuple[Batch, ...], statistics: SiteStatistics) -> tuple[TokenTrace, ...]:
    """Trace the sequences of all batches, in the order of the inputs."""
    sequences = {
        row: InputSequence(
            text=batch.texts[i] if i < len(batch.texts) else None,
            ids=batch.ids[i] if batch.ids else None,
            tokens=batch.tokens[i] if i < len(batch.tokens) else None,
            special=batch.special[i] if i < len(batch.special) else None,
        )
        for batch in batches
        for i, row in enumerate(batch.rows)
    }
    in_order = [sequences[row] for row in sorted(sequences)]
    return statistics.compute_traces(in_order)
