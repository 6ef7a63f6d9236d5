"""What was loaded, and whether all of it was."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from normdiag.evidence.architecture import Norm
from normdiag.evidence.subject import Loading, Subject
from normdiag.evidence.unit_gains import have_unit_gains
from normdiag.evidence.weights import StaticPass
from normdiag.number_text import format_count, format_number
from normdiag.render.elements import Element, Fact, FactList, Heading, ItemList, Sentence
from normdiag.render.escape import shorten_text
from normdiag.render.truncated_lines import truncate_lines
from normdiag.report.report import Report

_SHOWN = 5
_INPUTS = {
    "texts": "built-in texts",
    "user-texts": "the given texts",
    "inputs": "the given inputs",
    "random-ids": "seeded random token ids",
    "random": "seeded random input",
}
MODES = {
    "weights-only": "weights only: the stored tensors were read, nothing was run",
    "structure-only": "structure only: no weights were loaded, so values are meaningless",
    "random-init": "random weights from the config: values are those at initialisation",
}
_DTYPE_BYTES = {
    "float64": 8,
    "float32": 4,
    "float16": 2,
    "bfloat16": 2,
    "float8_e4m3fn": 1,
    "float8_e5m2": 1,
    "int8": 1,
    "uint8": 1,
}


def section(report: Report, *, all_rows: bool) -> Iterator[Element]:
    """Yield the target, how it was loaded and what was run through it."""
    subject = report.subject
    yield Heading(level=1, title=shorten_text(subject.target))
    facts = [("model", describe_model(subject)), ("inputs", describe_inputs(subject))]
    if subject.mode in MODES:
        facts.insert(1, ("mode", MODES[subject.mode]))
    if report.measurements.weights is not None:
        described = _describe_weights(report.measurements.weights)
        unit = _describe_unit_gains(report.architecture.norms) if subject.mode == "run" else ""
        facts.append(("weights", described + unit))
    versions = Fact(label="versions", lines=(_describe_versions(subject),), style="quiet")
    yield FactList(facts=(*(Fact(label=label, lines=(value,)) for label, value in facts), versions))
    yield from _list_loading_problems(subject.loading, all_rows=all_rows)


def describe_model(subject: Subject) -> str:
    """Return class, type, parameters, dtype, device and memory."""
    name = shorten_text(subject.class_ or "a model without a class name")
    if subject.model_type is not None:
        name += f" ({shorten_text(subject.model_type)})"
    parts = [name]
    if subject.parameters is not None:
        parts.append(format_count(subject.parameters, "parameter"))
    if subject.dtype is not None:
        parts.append(f"{shorten_text(subject.dtype)} on {shorten_text(subject.device)}")
    if subject.parameters is not None and subject.dtype is not None:
        size = format_memory(subject.parameters, subject.dtype)
        parts += [] if size is None else [size]
    return ", ".join(parts)


def format_memory(parameters: int, dtype: str) -> str | None:
    """Return how much memory `parameters` of one dtype take; None for a dtype not known here."""
    size = _DTYPE_BYTES.get(dtype.removeprefix("torch."))
    if size is None:
        return None
    amount, units = float(parameters * size), ["B", "kB", "MB", "GB", "TB"]
    while amount >= 1000 and len(units) > 1:
        amount, units = amount / 1000, units[1:]
    return f"{format_number(amount)} {units[0]}"


def describe_inputs(subject: Subject) -> str:
    """Return what was run through the model."""
    inputs = subject.probe
    if inputs.kind == "none":
        parts = ["none"]
    else:
        kind = _INPUTS.get(inputs.kind, shorten_text(inputs.kind))
        size = f"{format_count(inputs.sequences, 'sequence')}, "
        size += format_count(inputs.tokens, "token")
        special = " ".join(shorten_text(token) for token in subject.special_tokens)
        parts = [f"{kind}: {size}", f"special tokens added: {special or 'none'}"]
    return "; ".join([*parts, *([shorten_text(inputs.note)] if inputs.note else [])])


def _describe_weights(weights: StaticPass) -> str:
    described = _describe_values(weights) if weights.tensors or not weights.empty else ""
    if weights.empty:
        shown = ", ".join(shorten_text(name) for name in weights.empty[:3])
        more = f" and {len(weights.empty) - 3:,} more" if len(weights.empty) > 3 else ""
        count = format_count(len(weights.empty), "empty tensor")
        described += f"{'; ' if described else ''}{count} (0 elements): {shown}{more}"
    return described


def _describe_unit_gains(norms: Sequence[Norm]) -> str:
    """Said of several norms: it is what a factory gives whose weights were never loaded."""
    if not have_unit_gains(norms):
        return ""
    many = sum(norm.gain is not None for norm in norms)
    return f"; all {many} gains exactly 1: untrained, or merged into the next weights"


def _describe_values(weights: StaticPass) -> str:
    stored = ", ".join(
        f"{many:,} as {shorten_text(dtype)}" for dtype, many in weights.dtypes.items()
    )
    finite = (
        "all values finite"
        if weights.nonfinite == 0
        else f"{format_count(weights.nonfinite, 'value')} NOT FINITE"
    )
    return f"{format_count(weights.tensors, 'tensor')}, {finite}; stored {stored}"


def _describe_versions(subject: Subject) -> str:
    versions = subject.versions
    parts = [f"normdiag {shorten_text(versions.normdiag)}"]
    if versions.torch:
        parts.append(f"torch {shorten_text(versions.torch)}")
    if versions.transformers:
        parts.append(f"transformers {shorten_text(versions.transformers)}")
    if subject.weights_digest:
        parts.append(f"weights {shorten_text(subject.weights_digest)[:12]}")
    return ", ".join(parts)


def _list_loading_problems(loading: Loading, *, all_rows: bool) -> Iterator[Element]:
    problems = (
        ("MISSING from the checkpoint and newly initialised (not trained)", loading.missing),
        ("of another SHAPE in the checkpoint", loading.mismatched),
        ("in the checkpoint but NOT USED by the model", loading.unexpected),
    )
    norm_parameters = set(loading.norm_parameters)
    most = None if all_rows else _SHOWN
    for problem, names in problems:
        norms = [name for name in names if name in norm_parameters]
        others = [name for name in names if name not in norm_parameters]
        if norms:
            count = format_count(len(norms), "norm parameter")
            yield Sentence(text=f"! {count} {problem}:", style="alarm")
            yield ItemList(items=tuple(truncate_lines(map(shorten_text, norms), most)))
        if others:
            count = format_count(len(others), "other parameter")
            yield Sentence(text=f"{count} {problem}:")
            yield ItemList(items=tuple(truncate_lines(map(shorten_text, others), most)))
