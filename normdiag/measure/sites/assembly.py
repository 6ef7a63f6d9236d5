"""All passes of one model put together: evidence by site id."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from normdiag.evidence.coverage import Skipped
from normdiag.evidence.measurements import Measurements
from normdiag.evidence.norm_inputs import NormMeasurement
from normdiag.evidence.replay import Replay
from normdiag.evidence.stream import Closure, Growth
from normdiag.measure.passes.forward import Pass
from normdiag.measure.passes.learned_values import LearnedValues
from normdiag.measure.passes.observer import AddRecord, NormRecord
from normdiag.measure.sites.branch_peaks import BranchPeaks
from normdiag.measure.sites.channel_share import channel_share
from normdiag.measure.sites.closure import close
from normdiag.measure.sites.growth import grow
from normdiag.measure.sites.head import HeadSums
from normdiag.measure.sites.jacobians import norm_jacobian
from normdiag.measure.sites.norm_inputs import NormStream
from normdiag.measure.sites.norm_output import output_rms
from normdiag.measure.sites.replay import replay_add, replay_norm
from normdiag.measure.sites.stream import AddStream, Rows, TokenNumbers, token_numbers
from normdiag.measure.sites.tokens import Variances, variances
from normdiag.structure.describe import SiteMap, build_architecture
from normdiag.structure.forms import DetectedNorm
from normdiag.structure.residuals import DetectedAdd


@dataclass(slots=True)
class Assembly:
    """The sites of the first pass, and what every pass saw of them.

    Of later passes the records alone are kept: their graphs go as soon as they are filed.
    """

    first: Pass
    sites: SiteMap
    learned: LearnedValues
    keep_tokens: bool = False
    """Whether the numbers of every token are kept, for `trace`."""
    norms: dict[str, list[NormRecord]] = field(default_factory=dict)
    """Per norm: its sampled rows in each pass."""
    adds: dict[str, list[AddRecord]] = field(default_factory=dict)
    norm_streams: dict[str, NormStream] = field(default_factory=dict)
    add_streams: dict[str, AddStream] = field(default_factory=dict)
    numbers: dict[str, list[TokenNumbers]] = field(default_factory=dict)
    variances: dict[str, list[Variances]] = field(default_factory=dict)
    peaks: BranchPeaks = field(default_factory=BranchPeaks)
    head: HeadSums = field(default_factory=HeadSums)
    are_finite: list[bool] = field(default_factory=list)
    """Per pass: whether every norm input, every add and the output were finite."""
    elsewhere: set[str] = field(default_factory=set)
    """Sites that ran in a later pass and not in the first."""
    _found: dict[str, DetectedNorm | DetectedAdd] = field(default_factory=dict)

    @classmethod
    def of(cls, first: Pass, rows: Rows, *, keep_tokens: bool = False) -> Assembly:
        """The first pass, whose sites are the report's."""
        learned = LearnedValues(first.sites.values)
        sites = build_architecture(first.graph, first.reading.norms, first.stacks, learned)
        assembly = cls(first, sites, learned, keep_tokens)
        assembly._found = {i: n for n, i in sites.norms.items()}
        assembly._found |= {i: a for a, i in sites.adds.items()}
        assembly._file(first, sites, rows)
        return assembly

    def add(self, done: Pass, rows: Rows) -> None:
        """One more pass over the same model."""
        learned = LearnedValues(done.sites.values)
        self._file(done, build_architecture(done.graph, done.reading.norms, done.stacks, learned), rows)

    def _file(self, done: Pass, sites: SiteMap, rows: Rows) -> None:
        self.are_finite.append(done.is_finite)
        self.head.take(done)
        self.peaks.take(done.sites.peaks, sites)
        for norm, name in sites.norms.items():
            record = done.sites.norms.get(norm)
            found = self._found.get(name)
            if record is not None and isinstance(found, DetectedNorm):
                record.found = found
                self._take_norm(name, record, rows)
            elif found is None:
                self.elsewhere.add(name)
        for add, name in sites.adds.items():
            added = done.sites.adds.get(add)
            found = self._found.get(name)
            if added is not None and isinstance(found, DetectedAdd):
                added.found = found
                self._take_add(name, added, rows)
            elif found is None:
                self.elsewhere.add(name)

    def _take_norm(self, name: str, record: NormRecord, rows: Rows) -> None:
        self.norms.setdefault(name, []).append(record)
        if record.statistics is None:
            return
        if name not in self.norm_streams:
            self.norm_streams[name] = NormStream.of(record.found, self.learned)
        self.norm_streams[name].take(record, record.statistics)
        if self.keep_tokens:
            self.variances.setdefault(name, []).append(variances(record, rows))
        record.statistics = None

    def _take_add(self, name: str, record: AddRecord, rows: Rows) -> None:
        self.adds.setdefault(name, []).append(record)
        if record.statistics is None:
            return
        numbers = token_numbers(record, record.statistics, rows)
        stream = self.add_streams.setdefault(name, AddStream())
        stream.take(numbers, record.statistics)
        if record.extremes is not None:
            out_square = record.statistics.out_square
            stream.extremes.take(record.found, record.extremes, out_square, record.tokens.valid)
        if self.keep_tokens:
            self.numbers.setdefault(name, []).append(numbers)
        record.statistics = None

    def skipped(self) -> list[Skipped]:
        """What could not be measured, and why."""
        return [
            *_skipped(
                set(self.sites.adds.values()) - set(self.adds),
                "another residual add ran between the branches that are summed here",
            ),
            *_skipped(
                set(self.sites.norms.values()) - set(self.norms),
                "what these norms take was overwritten before it was known to be theirs",
            ),
            *_skipped(
                self.elsewhere, "these sites ran for some inputs only, not for the first ones"
            ),
            *_skipped(
                {
                    f"closure of {name}"
                    for name, stack in self.sites.stacks.items()
                    if close(stack, self.first.sites.adds, self.learned) is None
                },
                "tokens change places or number between its adds",
            ),
        ]


def _skipped(names: set[str], why: str) -> list[Skipped]:
    if not names:
        return []
    shown = sorted(names)
    return [Skipped(what=", ".join(shown[:8]) + (", .." if len(shown) > 8 else ""), why=why)]


def assemble(passes: Sequence[Pass], rows: Sequence[Rows]) -> Assembly:
    """`rows[i]`: which sequences of the probe pass i ran."""
    assembly = Assembly.of(passes[0], rows[0])
    for done, own in zip(passes[1:], rows[1:], strict=True):
        assembly.add(done, own)
    return assembly


def measure(assembly: Assembly, wanted: Sequence[str], step: Callable[[], None]) -> Measurements:
    """Numbers of every site. `step` is called after each norm's Jacobian, the slow part."""
    replay: dict[str, Replay] = {}
    norms: dict[str, NormMeasurement] = {}
    for name, records in assembly.norms.items():
        again = replay_norm(records, assembly.learned)
        if again is not None:
            replay[name] = again
        jacobian = norm_jacobian(records, assembly.learned) if "jacobians" in wanted else None
        stream = assembly.norm_streams.get(name)
        measured = None if stream is None else stream.result(jacobian)
        if measured is not None:
            share, channel = channel_share(records) or (None, None)
            norms[name] = replace(
                measured,
                output_rms=output_rms(records),
                channel_share=share,
                share_channel=channel,
            )
        step()
    replay |= {name: replay_add(records) for name, records in assembly.adds.items()}
    added = {name: stream.result() for name, stream in assembly.add_streams.items()}
    is_streamed = "stream" in wanted
    return Measurements(
        norms=norms,
        stream={name: m for name, m in added.items() if m is not None},
        growth=growth_of(assembly) if is_streamed else {},
        closure=_closure(assembly) if is_streamed else {},
        replay=replay,
        head_input=assembly.head.result() if is_streamed else None,
    )


def growth_of(assembly: Assembly) -> dict[str, Growth]:
    """Stack id -> its law of growth, of stacks that have one."""
    streams = assembly.add_streams
    found = {}
    for name, stack in assembly.sites.stacks.items():
        ids = [assembly.sites.adds[f.add] for f in stack.adds]
        growth = grow([streams[i] for i in ids if i in streams])
        if growth is not None:
            found[name] = growth
    return found


def _closure(assembly: Assembly) -> dict[str, Closure]:
    closed = {
        name: close(stack, assembly.first.sites.adds, assembly.learned)
        for name, stack in assembly.sites.stacks.items()
    }
    return {name: closure for name, closure in closed.items() if closure is not None}
