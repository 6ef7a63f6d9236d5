"""inspect(), trace() and compare(): the only place where observing and judging meet."""

from __future__ import annotations

import gc
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from normdiag.errors import RunError
from normdiag.loading.interface import Loaded, Request, ShapesOnly, WeightsOnly
from normdiag.loading.load_target import load
from normdiag.options import Options
from normdiag.progress import Progress, Silent
from normdiag.report.compare.compare import compare as compare_reports
from normdiag.report.compare.comparison import Comparison
from normdiag.report.compare.pairing import pair
from normdiag.report.compare.rounding import Rounding
from normdiag.report.report import Report
from normdiag.report.saved import load_report
from normdiag.rules.engine import judge

if TYPE_CHECKING:
    from torch import nn

    from normdiag.evidence.evidence import Evidence
    from normdiag.measure.comparing.snapshot import Snapshot


def inspect(
    target: str | nn.Module, *, options: Options | None = None, progress: Progress | None = None
) -> Report:
    """Load, run, measure and judge one target."""
    return _report(target, options or Options(), progress or Silent(), with_tokens=False)


def trace(
    target: str | nn.Module, *, options: Options | None = None, progress: Progress | None = None
) -> Report:
    """As `inspect`, with every token's numbers at every site in `Report.trace`."""
    return _report(target, options or Options(), progress or Silent(), with_tokens=True)


def compare(
    a: str | nn.Module | Report,
    b: str | nn.Module | Report,
    *,
    options: Options | None = None,
    second: Options | None = None,
    progress: Progress | None = None,
) -> Comparison:
    """Compare two targets, two reports (also given as .json files), or one with the other.

    Two targets are run on the same inputs, one after the other, and their values compared. `second`
    are the options for `b` where they are others.
    """
    options, watch = options or Options(), progress or Silent()
    second = second or options
    a, b = _opened(a), _opened(b)
    if isinstance(a, Report) or isinstance(b, Report):
        return compare_reports(_report_of(a, options, watch), _report_of(b, second, watch))
    return _compare_models(a, b, options, second, watch)


def _opened(side: str | nn.Module | Report) -> str | nn.Module | Report:
    return load_report(side) if isinstance(side, str) and side.endswith(".json") else side


def _report_of(side: str | nn.Module | Report, options: Options, progress: Progress) -> Report:
    """A saved report is judged afresh, so that the same rules have judged both."""
    if isinstance(side, Report):
        return _judged(side.to_evidence(), options)
    return _report(side, options, progress, with_tokens=False)


def _compare_models(
    a: str | nn.Module, b: str | nn.Module, options: Options, second: Options, progress: Progress
) -> Comparison:
    loaded = _load(a, options, progress)
    from normdiag.measure.comparing.differences import differences
    from normdiag.measure.comparing.shared_probe import shared
    from normdiag.measure.comparing.snapshot import Snapshot

    mine, theirs = Snapshot(), Snapshot()
    first = _seen(loaded, a, options, progress, snapshot=mine)
    del loaded  # one model at a time
    gc.collect()
    loaded = _load(b, second, progress)
    inputs, note = shared(loaded, mine.batches)
    other: Report | None = None
    if inputs is not None:
        same = replace(second, inputs=inputs, texts=None, ids=None, chat=False)
        try:
            other = _on_probe_of(first, _seen(loaded, b, same, progress, snapshot=theirs))
        except RunError as error:
            note = f"B does not run on what A ran on: {error.what}"
    is_shared = other is not None
    other = other or _seen(loaded, b, second, progress, snapshot=theirs)
    pairs = pair(first, other, Rounding.of(first.subject, other.subject))
    adds = [(x.id, y.id) for x, y in pairs.adds if is_shared]
    seen = differences(mine, theirs, adds, [(x.id, y.id) for x, y in pairs.norms])
    return compare_reports(first, other, seen, note)


def _on_probe_of(first: Report, other: Report) -> Report:
    probe, special = first.subject.probe, first.subject.special_tokens
    return replace(other, subject=replace(other.subject, probe=probe, special_tokens=special))


def _report(
    target: str | nn.Module, options: Options, progress: Progress, *, with_tokens: bool
) -> Report:
    # a target that cannot be loaded is told before torch is imported
    loaded = _load(target, options, progress)
    return _seen(loaded, target, options, progress, with_tokens=with_tokens)


def _seen(
    loaded: Loaded,
    target: str | nn.Module,
    options: Options,
    progress: Progress,
    *,
    with_tokens: bool = False,
    snapshot: Snapshot | None = None,
) -> Report:
    from normdiag.measure.observe import observe, observe_weights
    from normdiag.measure.structure_only import observe_shapes, observe_structure

    name = target if isinstance(target, str) else type(target).__name__
    if isinstance(loaded, WeightsOnly):
        evidence = observe_weights(loaded, name, options, progress)
    elif isinstance(loaded, ShapesOnly):
        evidence = observe_shapes(loaded, name, options)
    elif loaded.mode == "structure-only":
        evidence = observe_structure(loaded, name, options, progress)
    else:
        evidence = observe(
            loaded, name, options, progress, with_tokens=with_tokens, snapshot=snapshot
        )
    return _judged(evidence, options)


def _judged(evidence: Evidence, options: Options) -> Report:
    judgement = judge(
        evidence, select=options.select, ignore=options.ignore, thresholds=options.thresholds
    )
    return Report.from_evidence(evidence, judgement)


def _load(target: str | nn.Module, options: Options, progress: Progress) -> Loaded:
    if not isinstance(target, str):
        from normdiag.loading.adapter import refuse_for_module
        from normdiag.loading.factory import of_module

        if options.adapter is not None:
            refuse_for_module(options.adapter)
        return of_module(target, structure_only=options.structure_only)
    request = Request(
        target=target,
        revision=options.revision,
        device=options.device,
        dtype=options.dtype,
        seed=options.seed,
        trust_remote_code=options.trust_remote_code,
        random_init=options.random_init,
        structure_only=options.structure_only,
        weights_only=options.weights_only,
        adapter=None if options.adapter is None else Path(options.adapter).expanduser(),
    )
    steps = _Steps(f"loading {target}", progress)
    loaded = load(request, steps.step)
    progress.done()
    return loaded


class _Steps:
    """A source's own progress (what, done, total) told as starts and advances."""

    def __init__(self, what: str, progress: Progress) -> None:
        self._progress = progress
        self._what = what
        self._done = 0
        progress.start(what)

    def step(self, what: str, done: int, total: int | None) -> None:
        if what != self._what:
            self._what, self._done = what, 0
            self._progress.start(what, total)
        self._progress.advance(max(done - self._done, 0))
        self._done = done
