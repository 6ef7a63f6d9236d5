"""Statistics of all passes of one model: measurements by site id."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field

from normdiag.evidence.architecture import title_stack
from normdiag.evidence.coverage import SkippedMeasurement
from normdiag.evidence.measurements import Measurements
from normdiag.evidence.stream import Growth
from normdiag.evidence.tokens import TokenTrace
from normdiag.measure.passes.forward import ForwardPass
from normdiag.measure.passes.learned_values import LearnedValues
from normdiag.measure.sites.branch_peaks import BranchPeaks
from normdiag.measure.sites.norm_inputs import NormInputAccumulator
from normdiag.measure.sites.samples import AddSample, NormSample
from normdiag.measure.sites.site_accumulators import SiteAccumulators, compute_closures
from normdiag.measure.sites.stream import AddAccumulator
from normdiag.measure.sites.tokens import InputSequence
from normdiag.measure.statistics.earliest_pass import EarliestPass, SequenceNumbers, pass_number
from normdiag.structure.build_architecture import SiteMap

_SHOWN_SITES = 8


@dataclass(slots=True)
class SiteStatistics:
    """Accumulator of the norms and residual adds of one model.

    Of the earliest pass the structure is kept: its sites are the report's. Of the others there are
    the accumulators alone. Another process's accumulators are merged by
    `accumulators.merge(received)`.
    """

    accumulators: SiteAccumulators = field(default_factory=SiteAccumulators)
    earliest: EarliestPass[ForwardPass] = field(default_factory=EarliestPass)

    @classmethod
    def from_pass(cls, forward: ForwardPass, sequences: SequenceNumbers) -> SiteStatistics:
        """The statistics of one pass."""
        statistics = cls()
        statistics.update(forward, sequences)
        return statistics

    def update(self, forward: ForwardPass, sequences: SequenceNumbers) -> None:
        """Add one pass over `sequences`, which no other pass has run."""
        self.earliest.update(sequences, forward)
        self.accumulators.update(forward, sequences)

    def merge(self, other: SiteStatistics) -> None:
        """Add the passes of `other`."""
        self.earliest.merge(other.earliest)
        self.accumulators.merge(other.accumulators)

    def compute(
        self, measures: Collection[str], finish_norm: Callable[[], None] = lambda: None
    ) -> Measurements:
        """Measurements of every site; `finish_norm` is called after each norm, the slow part."""
        return self.accumulators.compute(self.first_pass, measures, finish_norm)

    def compute_growth(self) -> dict[str, Growth]:
        """Stack id -> its law of growth, of stacks that have one."""
        return self.accumulators.compute_growth(self.first_pass)

    def compute_growth_norms(self) -> dict[str, dict[str, float]]:
        """Stack id -> add id -> what its law is fitted to, in the order of the forward."""
        return {
            stack: {id: add.growth_norm() for id, add in adds.items()}
            for stack, adds in self.accumulators.list_stack_adds(self.first_pass).items()
        }

    def compute_traces(self, sequences: Iterable[InputSequence]) -> tuple[TokenTrace, ...]:
        """One trace per sequence of the inputs, if tokens were kept."""
        return self.accumulators.traces.compute(sequences, self.sites)

    @property
    def first_pass(self) -> ForwardPass:
        """The earliest pass."""
        forward = self.earliest.compute()
        if forward is None:
            raise ValueError("no pass has been added")
        return forward

    @property
    def sites(self) -> SiteMap:
        return self.first_pass.sites

    @property
    def learned_values(self) -> LearnedValues:
        return self.first_pass.learned

    @property
    def branch_peaks(self) -> BranchPeaks:
        return self.accumulators.peaks

    @property
    def norm_accumulators(self) -> dict[str, NormInputAccumulator]:
        """By norm id, in the order of the forward; of norms whose statistics were measured."""
        norms = self.accumulators.norms
        return {id: norms[id] for id in self.sites.norms.values() if id in norms}

    @property
    def add_accumulators(self) -> dict[str, AddAccumulator]:
        """By add id, in the order of the forward; of adds whose statistics were measured."""
        adds = self.accumulators.adds
        return {id: adds[id] for id in self.sites.adds.values() if id in adds}

    @property
    def norm_samples(self) -> dict[str, list[NormSample]]:
        """Norm id -> its sampled rows, in the order of the passes."""
        samples = self.accumulators.norm_samples
        return {id: samples[id].compute() for id in self.sites.norms.values() if id in samples}

    @property
    def add_samples(self) -> dict[str, list[AddSample]]:
        """Add id -> its sampled rows, in the order of the passes."""
        samples = self.accumulators.add_samples
        return {id: samples[id].compute() for id in self.sites.adds.values() if id in samples}

    def is_finite(self, sequences: SequenceNumbers) -> bool:
        """Whether all norm inputs, adds and outputs of the pass over `sequences` were finite."""
        return pass_number(sequences) not in self.accumulators.nonfinite_passes

    def list_skipped(self) -> list[SkippedMeasurement]:
        """What could not be measured, and why."""
        adds, norms = set(self.sites.adds.values()), set(self.sites.norms.values())
        return [
            *_describe_skipped(
                adds - self.accumulators.add_samples.keys(),
                "another residual add ran between the branches that are summed here",
            ),
            *_describe_skipped(
                norms - self.accumulators.norm_samples.keys(),
                "the inputs of these norms were overwritten before they were known to be theirs",
            ),
            *_describe_skipped(
                self.accumulators.site_ids - adds - norms,
                "these sites ran for some inputs only, not for the first ones",
            ),
        ]

    def list_unclosed_stacks(self) -> list[SkippedMeasurement]:
        """Stacks whose closure cannot be computed, and why."""
        unclosed = self.sites.stacks.keys() - compute_closures(self.first_pass).keys()
        return _describe_skipped(
            {f"closure of {title_stack(name)}" for name in unclosed},
            "tokens change places or number between its adds",
        )


def _describe_skipped(names: set[str], reason: str) -> list[SkippedMeasurement]:
    if not names:
        return []
    shown = sorted(names)
    more = ", .." if len(shown) > _SHOWN_SITES else ""
    return [SkippedMeasurement(what=", ".join(shown[:_SHOWN_SITES]) + more, why=reason)]
