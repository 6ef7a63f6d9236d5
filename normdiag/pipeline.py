"""inspect() and trace(): the only place where observing and judging meet."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from normdiag.options import Options
from normdiag.progress import Progress, Silent
from normdiag.report.report import Report
from normdiag.rules.engine import judge
from normdiag.sources.interface import Loaded, Request, ShapesOnly, WeightsOnly
from normdiag.sources.load import load

if TYPE_CHECKING:
    from torch import nn


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


def _report(
    target: str | nn.Module, options: Options, progress: Progress, *, with_tokens: bool
) -> Report:
    # a target that cannot be loaded is told before torch is imported
    loaded = _load(target, options, progress)
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
        evidence = observe(loaded, name, options, progress, with_tokens=with_tokens)
    judgement = judge(
        evidence, select=options.select, ignore=options.ignore, thresholds=options.thresholds
    )
    return Report.from_evidence(evidence, judgement)


def _load(target: str | nn.Module, options: Options, progress: Progress) -> Loaded:
    if not isinstance(target, str):
        from normdiag.sources.adapter import refuse_for_module
        from normdiag.sources.factory import of_module

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
