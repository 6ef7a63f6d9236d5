"""inspect() and trace(): the only place where observing and judging meet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import transformers
from torch import nn

from normdiag import __version__
from normdiag.evidence.coverage import Coverage, Skipped
from normdiag.evidence.evidence import Evidence
from normdiag.evidence.measurements import Measurements
from normdiag.evidence.nonfinite import FirstNonFinite
from normdiag.evidence.subject import Loading, Probe, Subject, Versions
from normdiag.evidence.tokens import TokenTrace
from normdiag.measure.assembly import Assembly, assemble, measure
from normdiag.measure.coverage import cover
from normdiag.measure.forward import Pass, Sampling, run
from normdiag.measure.nonfinite import locate
from normdiag.measure.observer import Wanted
from normdiag.measure.tokens import ProbeSequence, token_traces
from normdiag.measure.weights import static_pass
from normdiag.progress import Progress, Silent
from normdiag.report.report import Report
from normdiag.rules.engine import judge
from normdiag.sources import probes
from normdiag.sources.interface import Request, Runnable, WeightsOnly
from normdiag.sources.load import load
from normdiag.structure.forms import norm_parameters

if TYPE_CHECKING:
    from normdiag.sources.probes import Batch

MEASURES = ("stream", "norms", "jacobians")
"""What can be measured, all of it by default."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """How a target is loaded, what is run through it, what is measured and how it is judged."""

    revision: str | None = None
    device: str = "cpu"
    dtype: str | None = None
    seed: int = 0
    trust_remote_code: bool = False
    random_init: bool = False
    weights_only: bool = False
    measure: tuple[str, ...] = MEASURES
    texts: tuple[str, ...] | None = None
    ids: tuple[tuple[int, ...], ...] | None = None
    inputs: Any | None = None
    chat: bool = False
    special_tokens: bool = True
    all_tokens: bool = False
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    thresholds: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    command: str | None = None


def inspect(
    target: str | nn.Module, *, options: Options | None = None, progress: Progress | None = None
) -> Report:
    """Load, run, measure and judge one target."""
    return _observe(target, options or Options(), progress or Silent(), with_tokens=False)


def trace(
    target: str | nn.Module, *, options: Options | None = None, progress: Progress | None = None
) -> Report:
    """As `inspect`, with every token's numbers at every site in `Report.trace`."""
    return _observe(target, options or Options(), progress or Silent(), with_tokens=True)


def _observe(
    target: str | nn.Module, options: Options, progress: Progress, with_tokens: bool
) -> Report:
    loaded = _load(target, options, progress)
    if isinstance(loaded, WeightsOnly):
        evidence = _weights_alone(loaded, target, options, progress)
    else:
        evidence = _seen(loaded, target, options, progress, with_tokens)
    judgement = judge(
        evidence, select=options.select, ignore=options.ignore, thresholds=options.thresholds
    )
    return Report.from_evidence(evidence, judgement)


def _load(target: str | nn.Module, options: Options, progress: Progress) -> Runnable | WeightsOnly:
    if isinstance(target, nn.Module):
        return _in_memory(target)
    request = Request(
        target=target,
        revision=options.revision,
        device=options.device,
        dtype=options.dtype,
        seed=options.seed,
        trust_remote_code=options.trust_remote_code,
        random_init=options.random_init,
        weights_only=options.weights_only,
    )
    progress.start(f"loading {target}")
    loaded = load(request)
    progress.done()
    return loaded


def _in_memory(model: nn.Module) -> Runnable:
    config = getattr(model, "config", None)
    return Runnable(
        model=model,
        config=config,
        tokenizer=None,
        notes=(),
        loading=Loading(),
        tensors=lambda: iter(model.state_dict().items()),
        model_type=getattr(config, "model_type", None),
        class_name=type(model).__name__,
    )


def _weights_alone(
    loaded: WeightsOnly, target: str | nn.Module, options: Options, progress: Progress
) -> Evidence:
    progress.start("reading tensors")
    weights, digest = static_pass(loaded.tensors(), {}, keep_vectors=True)
    progress.done()
    why = "the weights alone were read; nothing was run"
    return Evidence(
        subject=Subject(
            target=str(target),
            model_type=loaded.model_type,
            class_=loaded.class_name,
            parameters=weights.elements,
            dtype=max(weights.dtypes, key=lambda d: weights.dtypes[d], default=None),
            device="cpu",
            probe=Probe(kind="none", sequences=0, tokens=0, note="; ".join(loaded.notes) or None),
            versions=_versions(),
            weights_digest=digest,
            command=options.command,
            loading=loaded.loading,
            mode=loaded.mode,
        ),
        measurements=Measurements(weights=weights),
        coverage=Coverage(
            skipped=tuple(Skipped(what=what, why=why) for what in ("architecture", *MEASURES))
        ),
    )


def _seen(
    loaded: Runnable,
    target: str | nn.Module,
    options: Options,
    progress: Progress,
    with_tokens: bool,
) -> Evidence:
    model = loaded.model
    batches, probe, special = _probe(loaded, options)
    sampling = Sampling(None if options.all_tokens else 16, options.seed)
    with_norms = not {"norms", "jacobians"}.isdisjoint(options.measure)
    wanted = Wanted("stream" in options.measure, with_norms)
    passes: list[Pass] = []
    progress.start("running the model", len(batches))
    for batch in batches:
        passes.append(run(model, batch, wanted, sampling))
        progress.advance()
    progress.done()
    assembly = assemble(passes, [b.rows for b in batches])
    progress.start("measuring norms", len(assembly.norms))
    measurements, numbers = measure(assembly, options.measure, progress.advance)
    progress.done()
    progress.start("reading tensors")
    weights, digest = static_pass(loaded.tensors(), model.state_dict(), keep_vectors=False)
    progress.done()
    if options.measure:
        measurements = replace(
            measurements,
            weights=weights,
            first_nonfinite=_first_nonfinite(model, batches, assembly, progress),
        )
    traces: tuple[TokenTrace, ...] = ()
    if with_tokens:
        traces = token_traces(_probe_sequences(batches), numbers, assembly.norms)
    return Evidence(
        subject=_subject(loaded, target, options, (probe, special), passes, digest),
        architecture=assembly.sites.architecture,
        measurements=measurements,
        coverage=cover(model, passes[0], assembly.sites, assembly.skipped),
        trace=traces,
    )


def _probe(loaded: Runnable, options: Options) -> tuple[tuple[Batch, ...], Probe, tuple[str, ...]]:
    if options.inputs is not None:
        given = options.inputs
        if isinstance(given, Path):
            given = probes.read_inputs(given)
        batches = probes.from_inputs(given, model=loaded.model, tokenizer=loaded.tokenizer)
        return batches, probes.describe(batches, "inputs"), ()
    return probes.build(
        loaded,
        probes.ProbeOptions(
            texts=options.texts,
            ids=options.ids,
            chat=options.chat,
            special_tokens=options.special_tokens,
            seed=options.seed,
        ),
    )


def _probe_sequences(batches: tuple[Batch, ...]) -> list[ProbeSequence]:
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
    for batch, done in zip(batches, assembly.passes, strict=True):
        if done.is_finite:
            continue
        progress.start("looking for the first non-finite value")
        found = locate(model, batch, assembly.sites)
        progress.done()
        if found is not None:
            return found
    return None


def _subject(
    loaded: Runnable,
    target: str | nn.Module,
    options: Options,
    probe: tuple[Probe, tuple[str, ...]],
    passes: list[Pass],
    digest: str,
) -> Subject:
    model = loaded.model
    described, special = probe
    if loaded.notes:
        notes = (described.note, *loaded.notes)
        described = replace(described, note="; ".join(n for n in notes if n))
    parameters = list(model.parameters())
    dtypes = Counter(_dtype(p) for p in parameters)
    return Subject(
        target=target if isinstance(target, str) else type(target).__name__,
        model_type=loaded.model_type,
        class_=loaded.class_name,
        parameters=sum(p.numel() for p in parameters),
        dtype=dtypes.most_common(1)[0][0] if dtypes else None,
        device=str(parameters[0].device) if parameters else "cpu",
        probe=described,
        versions=_versions(),
        weights_digest=digest,
        command=options.command,
        special_tokens=special,
        loading=_with_norm_parameters(loaded.loading, passes[0]),
        mode=loaded.mode,
    )


def _with_norm_parameters(loading: Loading, done: Pass) -> Loading:
    """Which of the parameters that did not match are gains or biases of norms, by the graph."""
    odd = {*loading.missing, *loading.mismatched}
    if not odd:
        return loading
    of_norms = norm_parameters(done.reading.norms)
    return replace(
        loading,
        norm_parameters=tuple(sorted((odd & of_norms) | set(loading.norm_parameters))),
    )


def _dtype(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _versions() -> Versions:
    return Versions(
        normdiag=__version__, torch=torch.__version__, transformers=transformers.__version__
    )
