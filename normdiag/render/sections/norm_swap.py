"""RMSNorm or LayerNorm: what the other kind would change, and how long each takes."""

from __future__ import annotations

from collections.abc import Iterator

from normdiag.evidence.invariances import CentringEffect
from normdiag.evidence.norm_speed import NormSpeed
from normdiag.evidence.norm_swap import NormSwap, SwapLoss
from normdiag.number_text import format_count, format_number, format_percent
from normdiag.render.elements import Element, Heading, Sentence
from normdiag.render.escape import shorten_text
from normdiag.render.sort_key import nan_as_largest
from normdiag.report.report import Report

_NAMES = {"layernorm": "LayerNorm", "rmsnorm": "RMSNorm"}
_LOSSES = {
    "causal-lm": "next-token loss",
    "sequence-to-sequence": "next-token loss",
    "masked-lm": "masked-token loss",
}


def section(report: Report, *, all_rows: bool) -> Iterator[Element]:
    """Yield the effect of the swap, the mean energies behind it, and the times."""
    measured = report.measurements
    centring = () if measured.invariances is None else measured.invariances.centring
    if not (centring or measured.norm_swap or measured.norm_speed):
        return
    yield Heading(title="RMSNorm or LayerNorm")
    if measured.norm_swap is not None:
        for text in _describe_swap(measured.norm_swap):
            yield Sentence(text=text)
    for effect in centring:
        yield Sentence(text=_describe_centring(effect))
    for speed in measured.norm_speed:
        yield Sentence(text=_describe_speed(speed))


def _describe_swap(swap: NormSwap) -> Iterator[str]:
    """All at once, then the largest alone."""
    if swap.hidden_change is not None and swap.swapped:
        change = f"changes the last hidden state by {format_percent(swap.hidden_change)}"
        over = f"(||h' - h|| / ||h|| over {format_count(swap.tokens, 'token')})"
        yield f"{_name_swap(swap)} {change} {over}{_describe_loss(swap.loss)}."
    elif swap.loss is not None and swap.swapped:
        yield f"{_name_swap(swap)}{_describe_loss(swap.loss)}."
    if swap.alone:
        norm = max(swap.alone, key=lambda id: nan_as_largest(swap.alone[id].median))
        yield (
            "Largest median change of a single norm's output, over sampled rows of its own input: "
            f"{format_percent(swap.alone[norm].median)} at {shorten_text(norm)}."
        )


def _name_swap(swap: NormSwap) -> str:
    many = swap.layer_norms + swap.rms_norms
    norms = format_count(many, "norm")
    place = f"all {norms}" if swap.swapped == many > 1 else f"{swap.swapped} of {norms}"
    if swap.layer_norms and swap.rms_norms:
        return f"LayerNorm and RMSNorm exchanged at {place}"
    if swap.layer_norms:
        return f"RMSNorm instead of LayerNorm at {place}"
    return f"LayerNorm instead of RMSNorm at {place}"


def _describe_loss(loss: SwapLoss | None) -> str:
    if loss is None:
        return ""
    name = _LOSSES.get(loss.kind, "loss")
    before, after = (format_number(value, 4) for value in (loss.before, loss.after))
    return f"; {name} {before} -> {after} ({format_count(loss.tokens, 'target')})"


def _describe_centring(centring: CentringEffect) -> str:
    return (
        f"Energy of {_NAMES[centring.kind]} inputs in their mean direction, in units of 1/H (a "
        f"random direction; {format_count(centring.norms, 'norm')}): median "
        f"{format_number(centring.median)}, largest {format_number(centring.max)} "
        f"({format_percent(centring.share)} of the energy) at {shorten_text(centring.norm)}."
    )


def _describe_speed(speed: NormSpeed) -> str:
    shape = "×".join(map(str, speed.shape))
    form = "fused" if speed.form == "fused" else "written out"
    return (
        f"Time at {shape} {speed.dtype} on {speed.device} ({format_count(speed.norms, 'norm')}), "
        f"{form}: LayerNorm {format_number(speed.layer_norm_ms)} ms, RMSNorm "
        f"{format_number(speed.rms_norm_ms)} ms; RMSNorm / LayerNorm {format_number(speed.ratio)} "
        f"({format_number(speed.ratio_min)} to {format_number(speed.ratio_max)}; medians and range "
        f"of {speed.runs} runs)."
    )
