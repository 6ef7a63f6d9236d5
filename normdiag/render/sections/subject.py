"""What was loaded, and whether all of it was."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from normdiag.evidence.subject import Loading, Subject
from normdiag.evidence.weights import StaticPass
from normdiag.render.escape import visible
from normdiag.render.few import few
from normdiag.render.page import QUIET, Page, facts, prose
from normdiag.render.units import count, memory
from normdiag.report.report import Report

ALARM = "bold red"
_FEW = 5
_PROBES = {
    "texts": "built-in texts",
    "user-texts": "the given texts",
    "inputs": "the given inputs",
    "random-ids": "seeded random token ids",
    "random": "seeded random input",
}
_MODES = {
    "weights-only": "only the stored tensors were gone over; nothing was run",
    "structure-only": "structure only: there were no weights, so the numbers say nothing",
    "random-init": "weights are random, made from the config: the numbers are those of a start",
}


def section(report: Report, page: Page) -> Iterator[RenderableType]:
    """Yield the target, how it was loaded and what was run through it."""
    subject = report.subject
    yield Text(visible(subject.target), "bold")
    rows = [("model", _model(subject)), ("probe", _probe(subject))]
    if subject.mode in _MODES:
        rows.insert(1, ("mode", _MODES[subject.mode]))
    if report.measurements.weights is not None:
        rows.append(("weights", _weights(report.measurements.weights)))
    yield facts([*rows, ("made by", Text(_versions(subject), QUIET))])
    yield from _loading(subject.loading, page)


def _model(subject: Subject) -> str:
    name = visible(subject.class_ or "a model without a class name")
    if subject.model_type is not None:
        name += f" ({visible(subject.model_type)})"
    said = [name]
    if subject.parameters is not None:
        said.append(count(subject.parameters, "parameter"))
    if subject.dtype is not None:
        said.append(f"{visible(subject.dtype)} on {visible(subject.device)}")
    if subject.parameters is not None and subject.dtype is not None:
        size = memory(subject.parameters, subject.dtype)
        said += [] if size is None else [size]
    return ", ".join(said)


def _probe(subject: Subject) -> str:
    probe = subject.probe
    if probe.kind == "none":
        said = ["nothing was run"]
    else:
        what = _PROBES.get(probe.kind, visible(probe.kind))
        size = f"{count(probe.sequences, 'sequence')}, {count(probe.tokens, 'token')}"
        special = " ".join(visible(token) for token in subject.special_tokens)
        said = [f"{what}: {size}", f"special tokens added: {special or 'none'}"]
    return "; ".join([*said, *([visible(probe.note)] if probe.note else [])])


def _weights(weights: StaticPass) -> str:
    stored = ", ".join(f"{many:,} as {visible(dtype)}" for dtype, many in weights.dtypes.items())
    finite = (
        "all values finite"
        if weights.nonfinite == 0
        else f"{count(weights.nonfinite, 'value')} NOT FINITE"
    )
    return f"{count(weights.tensors, 'tensor')}, {finite}; stored {stored}"


def _versions(subject: Subject) -> str:
    versions = subject.versions
    said = [f"normdiag {visible(versions.normdiag)}"]
    if versions.torch:
        said.append(f"torch {visible(versions.torch)}")
    if versions.transformers:
        said.append(f"transformers {visible(versions.transformers)}")
    if subject.weights_digest:
        said.append(f"weights {visible(subject.weights_digest)[:12]}")
    return ", ".join(said)


def _loading(loading: Loading, page: Page) -> Iterator[RenderableType]:
    troubles = (
        ("MISSING from the checkpoint, so made anew: their numbers say nothing", loading.missing),
        ("of another SHAPE in the checkpoint", loading.mismatched),
        ("in the checkpoint but NOT USED by the model", loading.unexpected),
    )
    of_norms = set(loading.norm_parameters)
    for what, names in troubles:
        norms = [name for name in names if name in of_norms]
        others = [name for name in names if name not in of_norms]
        if norms:
            yield prose(f"! {count(len(norms), 'norm parameter')} {what}:", ALARM)
            yield _listed(norms, page)
        if others:
            yield prose(f"{count(len(others), 'other parameter')} {what}:")
            yield _listed(others, page)


def _listed(names: list[str], page: Page) -> RenderableType:
    return prose("\n".join(few(map(visible, names), page.most(_FEW))), indent=4)
