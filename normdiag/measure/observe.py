"""A loaded target seen once: everything that is measured of it, as evidence."""

from __future__ import annotations

from dataclasses import replace

from torch import nn

from normdiag.errors import UsageError
from normdiag.evidence.coverage import Coverage, Skipped
from normdiag.evidence.evidence import Evidence
from normdiag.evidence.measurements import Measurements
from normdiag.evidence.nonfinite import FirstNonFinite
from normdiag.evidence.subject import Subject
from normdiag.evidence.tokens import TokenTrace
from normdiag.inputs.batch import Batch
from normdiag.loading.interface import Runnable, WeightsOnly
from normdiag.measure.columns import Ran, fill_columns
from normdiag.measure.comparing.snapshot import Snapshot
from normdiag.measure.coverage import cover
from normdiag.measure.defaults import deciding_defaults
from normdiag.measure.passes.forward import Sampling, run
from normdiag.measure.passes.observer import Wanted
from normdiag.measure.precision.in_float32 import reached_in_float32
from normdiag.measure.precision.nonfinite import locate
from normdiag.measure.probing import probe_of
from normdiag.measure.sites.assembly import Assembly, measure
from normdiag.measure.sites.tokens import ProbeSequence, token_traces
from normdiag.measure.subject import Named, subject_of, subject_of_weights
from normdiag.measure.weights import static_pass
from normdiag.options import MEASURES, Options
from normdiag.progress import Progress

SAMPLE = 16
"""Tokens on which Jacobians, replay and closure are computed, unless all are asked for."""


def observe_weights(
    loaded: WeightsOnly, target: str, options: Options, progress: Progress
) -> Evidence:
    """The static pass alone."""
    progress.start("reading tensors")
    weights, digest = static_pass(loaded.tensors({}), {}, keep_vectors=True)
    progress.done()
    why = "the weights alone were read; nothing was run"
    return Evidence(
        subject=subject_of_weights(loaded, Named(target, digest, options.command), weights),
        measurements=Measurements(weights=weights),
        coverage=Coverage(
            skipped=tuple(Skipped(what=what, why=why) for what in ("architecture", *MEASURES))
        ),
    )


def observe(
    loaded: Runnable,
    target: str,
    options: Options,
    progress: Progress,
    *,
    with_tokens: bool = False,
    snapshot: Snapshot | None = None,
) -> Evidence:
    """Run the probe through the model and measure what `options` ask for.

    `snapshot` takes what another model can be compared with.
    """
    batches, probe, special = probe_of(loaded, options)
    assembly = _run(loaded.model, batches, options, progress, with_tokens)
    if snapshot is not None:
        snapshot.take(assembly, batches)
    progress.start("measuring norms", len(assembly.norms))
    measurements = measure(assembly, options.measure, progress.advance)
    progress.done()
    ran = Ran(loaded, batches[0], assembly, options, progress)
    measurements, skipped = fill_columns(ran, measurements)
    progress.start("reading tensors")
    loaded_tensors = loaded.model.state_dict()
    weights, digest = static_pass(
        loaded.tensors(loaded_tensors), loaded_tensors, keep_vectors=False
    )
    progress.done()
    if options.measure:
        bad = _first_nonfinite(loaded.model, batches, assembly, progress)
        measurements = replace(measurements, weights=weights, first_nonfinite=bad)
    traces: tuple[TokenTrace, ...] = ()
    if with_tokens:
        traces = token_traces(_sequences(batches), assembly.numbers, assembly.variances)
    named = Named(target, digest, options.command)
    subject = subject_of(loaded, named, probe, special, assembly.first)
    return Evidence(
        subject=_with_defaults(subject, loaded, batches[0], progress),
        architecture=assembly.sites.architecture,
        measurements=measurements,
        coverage=cover(
            loaded.model, assembly.first, assembly.sites, [*assembly.skipped(), *skipped]
        ),
        trace=traces,
    )


def _with_defaults(subject: Subject, loaded: Runnable, batch: Batch, progress: Progress) -> Subject:
    """With the settings that the configuration leaves out and that decide the structure."""
    if loaded.mode != "run":
        return subject
    progress.start("turning settings that were left out")
    defaulted = deciding_defaults(loaded, batch)
    progress.done()
    return replace(subject, loading=replace(subject.loading, defaulted=defaulted))


def _run(
    model: nn.Module,
    batches: tuple[Batch, ...],
    options: Options,
    progress: Progress,
    keep_tokens: bool,
) -> Assembly:
    with_norms = not {"norms", "jacobians"}.isdisjoint(options.measure)
    wanted = Wanted("stream" in options.measure, with_norms)
    assembly: Assembly | None = None
    progress.start("running the model", len(batches))
    for number, batch in enumerate(batches):
        size = None if options.all_tokens else _sample(number, len(batches))
        done = run(model, batch, wanted, Sampling(size, options.seed))
        if assembly is None:
            assembly = Assembly.of(done, batch.rows, keep_tokens=keep_tokens)
        else:
            assembly.add(done, batch.rows)
        progress.advance()
    progress.done()
    if assembly is None:
        raise UsageError("there is nothing to run", "give at least one input or text")
    return assembly


def _sample(number: int, passes: int) -> int:
    """How many tokens of one pass are sampled: the sample is shared out over the passes."""
    return max(1, SAMPLE // passes) if number < SAMPLE else 0


def _sequences(batches: tuple[Batch, ...]) -> list[ProbeSequence]:
    """The sequences of all batches, in the order of the probe."""
    found = {
        row: ProbeSequence(
            text=batch.texts[i] if i < len(batch.texts) else None,
            ids=batch.ids[i] if batch.ids else None,
            tokens=batch.tokens[i] if i < len(batch.tokens) else None,
            special=batch.special[i] if i < len(batch.special) else None,
        )
        for batch in batches
        for i, row in enumerate(batch.rows)
    }
    return [found[row] for row in sorted(found)]


def _first_nonfinite(
    model: nn.Module, batches: tuple[Batch, ...], assembly: Assembly, progress: Progress
) -> FirstNonFinite | None:
    for batch, is_finite in zip(batches, assembly.are_finite, strict=True):
        if is_finite:
            continue
        progress.start("looking for the first non-finite value")
        found = locate(model, batch, assembly.sites)
        if found is not None:
            found = replace(found, in_float32=reached_in_float32(model, batch))
        progress.done()
        if found is not None:
            return found
    return None
