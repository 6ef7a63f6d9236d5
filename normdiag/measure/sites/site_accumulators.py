"""Everything that is accumulated of the sites of one model, by their ids: plain data."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace

from normdiag.evidence.measurements import Measurements
from normdiag.evidence.near_norms import NearNorm
from normdiag.evidence.norm_inputs import NormMeasurement
from normdiag.evidence.replay import Replay
from normdiag.evidence.stream import Closure, Growth
from normdiag.measure.passes.forward import ForwardPass
from normdiag.measure.passes.records import AddRecord, NormRecord
from normdiag.measure.sites.branch_peaks import BranchPeaks
from normdiag.measure.sites.channel_share import channel_share
from normdiag.measure.sites.closure import measure_closure
from normdiag.measure.sites.growth import fit_growth
from normdiag.measure.sites.half_replay import replay_half_norm
from normdiag.measure.sites.head_input import HeadInputAccumulator
from normdiag.measure.sites.jacobians import measure_norm_jacobian
from normdiag.measure.sites.near_norms import measure_near_norm
from normdiag.measure.sites.norm_inputs import NormInputAccumulator
from normdiag.measure.sites.norm_output import output_rms
from normdiag.measure.sites.output_sums import OutputSums
from normdiag.measure.sites.replay import replay_add, replay_norm
from normdiag.measure.sites.samples import (
    AddSample,
    NormSample,
    SampleAccumulator,
    sample_add,
    sample_norm,
)
from normdiag.measure.sites.stream import AddAccumulator, TokenNumbers, compute_token_numbers
from normdiag.measure.sites.tokens import TokenVariances, TraceAccumulator, token_variances
from normdiag.measure.statistics.accumulator import merge_by_id
from normdiag.measure.statistics.earliest_pass import SequenceNumbers, pass_number
from normdiag.measure.statistics.jacobian_extremes import JacobianExtremes
from normdiag.structure.algebraic_forms import DetectedNorm


@dataclass(slots=True)
class SiteAccumulators:
    """Accumulator of all sites. Holds ids and numbers, but no graph, so that it can be sent.

    Sites of every pass are accumulated; which of them are reported is known once all passes are
    merged: those of the earliest.
    """

    keep_tokens: bool = False
    """Whether the numbers of every token are kept, for `trace`."""
    norms: dict[str, NormInputAccumulator] = field(default_factory=dict)
    adds: dict[str, AddAccumulator] = field(default_factory=dict)
    norm_samples: dict[str, SampleAccumulator[NormSample]] = field(default_factory=dict)
    add_samples: dict[str, SampleAccumulator[AddSample]] = field(default_factory=dict)
    jacobians: dict[str, JacobianExtremes] = field(default_factory=dict)
    peaks: BranchPeaks = field(default_factory=BranchPeaks)
    head_input: HeadInputAccumulator = field(default_factory=HeadInputAccumulator)
    outputs: OutputSums = field(default_factory=OutputSums)
    traces: TraceAccumulator = field(default_factory=TraceAccumulator)
    site_ids: set[str] = field(default_factory=set)
    """Of all norms and adds that ran in any pass."""
    nonfinite_passes: set[int] = field(default_factory=set)
    """Numbers of the passes in which a norm input, an add or the output was not finite."""

    def update(self, forward: ForwardPass, sequences: SequenceNumbers) -> None:
        """Add one pass over `sequences`; the statistics of its records are dropped."""
        sites, records = forward.sites, forward.records
        self.site_ids.update(sites.norms.values(), sites.adds.values())
        if not forward.is_finite:
            self.nonfinite_passes.add(pass_number(sequences))
        self.head_input.update(forward)
        self.outputs.update(forward.outputs, sequences)
        self.peaks.update(records.peaks, sites, sequences)
        numbers: dict[str, TokenNumbers] = {}
        variances: dict[str, TokenVariances] = {}
        for norm, id in sites.norms.items():
            if norm in records.norms:
                record = records.norms[norm]
                self._update_norm(id, record, forward, sequences)
                if self.keep_tokens and record.statistics is not None:
                    variances[id] = token_variances(record, sequences)
                record.statistics = None
        for add, id in sites.adds.items():
            if add in records.adds:
                added = self._update_add(id, records.adds[add], sequences)
                if self.keep_tokens and added is not None:
                    numbers[id] = added
                records.adds[add].statistics = None
        self.traces.update(numbers, variances)

    def merge(self, other: SiteAccumulators) -> None:
        """Add the passes of `other`."""
        merge_by_id(self.norms, other.norms)
        merge_by_id(self.adds, other.adds)
        merge_by_id(self.jacobians, other.jacobians)
        merge_by_id(self.norm_samples, other.norm_samples)
        merge_by_id(self.add_samples, other.add_samples)
        self.peaks.merge(other.peaks)
        self.head_input.merge(other.head_input)
        self.outputs.merge(other.outputs)
        self.traces.merge(other.traces)
        self.site_ids |= other.site_ids
        self.nonfinite_passes |= other.nonfinite_passes

    def compute(
        self,
        first: ForwardPass,
        measures: Collection[str],
        finish_norm: Callable[[], None] = lambda: None,
    ) -> Measurements:
        """Measurements of the sites of `first`, the earliest pass.

        `finish_norm` is called after each norm: its Jacobian is what takes time.
        """
        replay: dict[str, Replay] = {}
        norms: dict[str, NormMeasurement] = {}
        near_norms: dict[str, NearNorm] = {}
        has_jacobians = "norm-jacobians" in measures
        for norm, id in first.sites.norms.items():
            if id not in self.norm_samples:
                continue
            samples = self.norm_samples[id].compute()
            if norm.statistic is not None:
                near = measure_near_norm(norm, samples)
                near_norms |= {} if near is None else {id: near}
                finish_norm()
                continue
            replayed = replay_norm(norm, samples, first.learned)
            if replayed is not None:
                half = replay_half_norm(norm, samples, first.learned)
                replay[id] = replace(replayed, half_statistic=half)
            measured = self.norms[id].compute() if id in self.norms else None
            if measured is not None:
                measured = _add_sample_measurements(measured, norm, samples)
                if has_jacobians:
                    extremes = self.jacobians.get(id, JacobianExtremes())
                    jacobian = measure_norm_jacobian(norm, samples, first.learned, extremes)
                    measured = replace(measured, jacobian=jacobian)
                norms[id] = measured
            finish_norm()
        for id in first.sites.adds.values():
            if id in self.add_samples:
                replay[id] = replay_add(self.add_samples[id].compute())
        adds = {id: self.adds[id].compute() for id in first.sites.adds.values() if id in self.adds}
        has_stream = "stream-adds" in measures
        return Measurements(
            norms=norms,
            near_norms=near_norms,
            stream={id: measured for id, measured in adds.items() if measured is not None},
            growth=self.compute_growth(first) if has_stream else {},
            closure=compute_closures(first) if has_stream else {},
            replay=replay,
            head_input=self.head_input.compute() if has_stream else None,
            outputs=self.outputs.compute(),
        )

    def compute_growth(self, first: ForwardPass) -> dict[str, Growth]:
        """Stack id -> its law of growth, of the stacks of `first` that have one."""
        growths = {
            stack: fit_growth(list(adds), list(adds.values()))
            for stack, adds in self.list_stack_adds(first).items()
        }
        return {stack: growth for stack, growth in growths.items() if growth is not None}

    def list_stack_adds(self, first: ForwardPass) -> dict[str, dict[str, AddAccumulator]]:
        """Stack id -> add id -> what was measured, of the adds of `first`, in order of depth."""
        stacks = {}
        for name, stack in first.sites.stacks.items():
            ids = [first.sites.adds[facts.add] for facts in stack.adds]
            stacks[name] = {id: self.adds[id] for id in ids if id in self.adds}
        return stacks

    def _update_norm(
        self, id: str, record: NormRecord, forward: ForwardPass, sequences: SequenceNumbers
    ) -> None:
        sample = sample_norm(record, sequences)
        self.norm_samples.setdefault(id, SampleAccumulator()).update(sample)
        if record.statistics is not None:
            if id not in self.norms:
                self.norms[id] = NormInputAccumulator.for_norm(record.norm, forward.learned)
            self.norms[id].update(record)
        if record.extremes is not None:
            self.jacobians.setdefault(id, JacobianExtremes()).merge(record.extremes)

    def _update_add(
        self, id: str, record: AddRecord, sequences: SequenceNumbers
    ) -> TokenNumbers | None:
        sample = sample_add(record, sequences)
        self.add_samples.setdefault(id, SampleAccumulator()).update(sample)
        if record.statistics is None:
            return None
        numbers = compute_token_numbers(record, record.statistics, sequences)
        self.adds.setdefault(id, AddAccumulator()).update(record, numbers, sequences)
        return numbers


def _add_sample_measurements(
    measured: NormMeasurement, norm: DetectedNorm, samples: list[NormSample]
) -> NormMeasurement:
    share, channel = channel_share(norm, samples) or (None, None)
    return replace(
        measured,
        output_rms=output_rms(samples),
        channel_share=share,
        dominant_channel=channel,
    )


def compute_closures(first: ForwardPass) -> dict[str, Closure]:
    """Stack id -> its closure in the earliest pass, of stacks that can be followed."""
    closures = {
        name: measure_closure(stack, first.records.adds, first.learned)
        for name, stack in first.sites.stacks.items()
    }
    return {name: closure for name, closure in closures.items() if closure is not None}
