"""inspect(), trace() and compare(): the only place where observation and judgement meet."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from normdiag.errors import RunError
from normdiag.loading.interface import (
    CheckpointTensors,
    LoadedModel,
    LoadedTarget,
    TensorShapes,
)
from normdiag.loading.load_target import load_target
from normdiag.options import Options
from normdiag.progress import NoProgress, Progress
from normdiag.report.compare.compare import compare_reports
from normdiag.report.compare.comparison import Comparison
from normdiag.report.compare.pairing import pair_sites
from normdiag.report.compare.rounding import Rounding
from normdiag.report.report import Report
from normdiag.report.saved import load_report
from normdiag.rules.engine import judge_evidence

if TYPE_CHECKING:
    from torch import nn

    from normdiag.evidence.evidence import Evidence
    from normdiag.measure.comparing.snapshot import Snapshot

_RUNNING = threading.RLock()


@contextmanager
def _run_alone() -> Iterator[None]:
    """Have a second thread wait: a run changes what belongs to the process.

    These are hooks on all modules, torch's random state and fast paths, stdout, and the settings of
    transformers. What a model raises where no boundary catches it (a hook, a backward) and is no
    `Exception` becomes a RunError.
    """
    with _RUNNING:
        try:
            yield
        except (Exception, KeyboardInterrupt):
            raise
        except BaseException as error:
            raise RunError(
                f"code of the target raised {type(error).__name__}: {error}",
                "that ends a program (sys.exit) or is the panic of an extension; call the model in "
                "Python to see where it comes from",
            ) from error


def inspect(
    target: str | nn.Module, *, options: Options | None = None, progress: Progress | None = None
) -> Report:
    """Load, run, measure and judge one target."""
    with _run_alone():
        return _inspect_target(
            target, options or Options(), progress or NoProgress(), with_tokens=False
        )


def trace(
    target: str | nn.Module, *, options: Options | None = None, progress: Progress | None = None
) -> Report:
    """As `inspect`, with every token's numbers at every site in `Report.trace`."""
    with _run_alone():
        return _inspect_target(
            target, options or Options(), progress or NoProgress(), with_tokens=True
        )


def compare(
    a: str | nn.Module | Report,
    b: str | nn.Module | Report,
    *,
    options: Options | None = None,
    second: Options | None = None,
    progress: Progress | None = None,
) -> Comparison:
    """Compare two targets, two reports (or their .json files), or a target with a report.

    Two targets run on the same inputs, one after the other, and their values are compared. `second`
    are the options for `b` where they differ.
    """
    options, progress = options or Options(), progress or NoProgress()
    second = second or options
    a, b = _load_saved(a), _load_saved(b)
    with _run_alone():
        if isinstance(a, Report) or isinstance(b, Report):
            return compare_reports(
                _build_report(a, options, progress), _build_report(b, second, progress)
            )
        return _compare_models(a, b, options, second, progress)


def _load_saved(side: str | nn.Module | Report) -> str | nn.Module | Report:
    return load_report(side) if isinstance(side, str) and side.endswith(".json") else side


def _build_report(side: str | nn.Module | Report, options: Options, progress: Progress) -> Report:
    """A saved report is judged afresh, so that the same rules have judged both."""
    if isinstance(side, Report):
        return _judge(side.to_evidence(), options)
    return _inspect_target(side, options, progress, with_tokens=False)


def _compare_models(
    a: str | nn.Module, b: str | nn.Module, options: Options, second: Options, progress: Progress
) -> Comparison:
    with _loaded_target(a, options, progress) as loaded:
        from normdiag.measure.comparing.differences import measure_differences
        from normdiag.measure.comparing.shared_inputs import share_inputs
        from normdiag.measure.comparing.snapshot import Snapshot

        mine, theirs = Snapshot(), Snapshot()
        first = _observe(loaded, a, options, progress, snapshot=mine)
    del loaded  # one model at a time
    gc.collect()
    with _loaded_target(b, second, progress) as loaded:
        inputs, note = share_inputs(loaded, mine.batches)
        other: Report | None = None
        if inputs is not None:
            same = replace(second, inputs=inputs, texts=None, ids=None, chat=False)
            try:
                other = _with_inputs_of(first, _observe(loaded, b, same, progress, snapshot=theirs))
            except RunError as error:
                note = f"B does not run on the inputs of A: {error.what}"
        is_shared = other is not None
        other = other or _observe(loaded, b, second, progress, snapshot=theirs)
    pairs = pair_sites(first, other, Rounding.coarser_of(first, other))
    adds = [(x.id, y.id) for x, y in pairs.adds if is_shared]
    norms = [(x.id, y.id) for x, y in pairs.norms]
    differences = measure_differences(mine, theirs, adds, norms, is_shared=is_shared)
    return compare_reports(first, other, differences, note)


def _with_inputs_of(first: Report, other: Report) -> Report:
    """`other` with the description of the inputs of `first`, which both ran on."""
    inputs, special = first.subject.probe, first.subject.special_tokens
    return replace(other, subject=replace(other.subject, probe=inputs, special_tokens=special))


def _inspect_target(
    target: str | nn.Module, options: Options, progress: Progress, *, with_tokens: bool
) -> Report:
    # before torch is imported: the error of a target that cannot be loaded comes at once
    with _loaded_target(target, options, progress) as loaded:
        return _observe(loaded, target, options, progress, with_tokens=with_tokens)


def _observe(
    loaded: LoadedTarget,
    target: str | nn.Module,
    options: Options,
    progress: Progress,
    *,
    with_tokens: bool = False,
    snapshot: Snapshot | None = None,
) -> Report:
    from normdiag.measure.observe import observe_model, observe_weights
    from normdiag.measure.structure_only import observe_shapes, observe_structure

    name = target if isinstance(target, str) else type(target).__name__
    if isinstance(loaded, CheckpointTensors):
        evidence = observe_weights(loaded, name, options, progress)
    elif isinstance(loaded, TensorShapes):
        evidence = observe_shapes(loaded, name, options)
    elif loaded.mode == "structure-only":
        evidence = observe_structure(loaded, name, options, progress)
    else:
        evidence = observe_model(
            loaded, name, options, progress, with_tokens=with_tokens, snapshot=snapshot
        )
    return _judge(evidence, options)


def _judge(evidence: Evidence, options: Options) -> Report:
    judgement = judge_evidence(
        evidence, select=options.select, ignore=options.ignore, thresholds=options.thresholds
    )
    return Report.from_evidence(evidence, judgement)


@contextmanager
def _loaded_target(
    target: str | nn.Module, options: Options, progress: Progress
) -> Iterator[LoadedTarget]:
    """The loaded target. At the end the caller's module gets back what loading took off it."""
    loaded = _load_target(target, options, progress)
    if options.tokenizer is not None and isinstance(loaded, LoadedModel):
        loaded = replace(loaded, tokenizer=options.tokenizer)
    try:
        yield loaded
    finally:
        if isinstance(loaded, LoadedModel):
            loaded.restore()


def _load_target(target: str | nn.Module, options: Options, progress: Progress) -> LoadedTarget:
    if not isinstance(target, str):
        from normdiag.loading.adapter import refuse_adapter_for_module
        from normdiag.loading.factory import wrap_module

        if options.adapter is not None:
            refuse_adapter_for_module(options.adapter)
        return wrap_module(target, structure_only=options.structure_only)
    progress.start_stage(f"loading {target}")
    loaded = load_target(target, options, progress)
    progress.finish_stage()
    return loaded
