"""What a stack does over its whole depth: contributions, influence, rank, sinks."""

from __future__ import annotations

from collections.abc import Iterator

from normdiag.evidence.architecture import ResidualAdd, Stack
from normdiag.evidence.layers import LayerMeasurement
from normdiag.evidence.stream import Contribution, Growth
from normdiag.number_text import format_number, format_percent
from normdiag.render.escape import shorten_text
from normdiag.render.sections.growth import NORMED_SUMS
from normdiag.report.report import Report

_CONTRIBUTIONS = 3
_SINK = 2.0
"""First tokens whose stream is this many times as long as the others' are worth a sentence."""


def describe_depth(report: Report, stack: Stack) -> Iterator[str]:
    """Yield what was measured over the depth of `stack`, a sentence or two each."""
    adds = [
        add
        for add in report.architecture.adds_of_stack(stack.id)
        if add.id in report.measurements.stream
    ]
    growth = report.measurements.growth.get(stack.id)
    yield from _describe_contributions(report, adds, growth)
    layers = [each for each in report.measurements.layers.values() if each.stack == stack.id]
    yield from _describe_layers(sorted(layers, key=lambda each: each.layer))
    if growth is not None and stack.placement not in NORMED_SUMS:
        yield from _describe_updates(growth)
    yield from _describe_sink(report, adds)


def _describe_contributions(
    report: Report, adds: list[ResidualAdd], growth: Growth | None
) -> Iterator[str]:
    contributions = {
        add.id: contribution
        for add in adds
        if (contribution := report.measurements.stream[add.id].contribution) is not None
    }
    if not contributions:
        return
    largest = sorted(contributions, key=lambda id: -contributions[id].energy)[:_CONTRIBUTIONS]
    parts = [f"{shorten_text(id)} {_format_contribution(contributions[id])}" for id in largest]
    if growth is not None and growth.initial_contribution is not None:
        parts.append(f"the stack's input {_format_contribution(growth.initial_contribution)}")
    tokens = _name_tokens(1, contributions[largest[0]].tokens + 1)
    yield (
        "Largest writes into the last stream value x_L, as shares of the energy (and signed, along "
        f"x_L) of all writes and the input, mean over {tokens}: "
        f"{', '.join(parts)}."
    )


def _format_contribution(contribution: Contribution) -> str:
    energy = format_percent(contribution.energy)
    return f"{energy} ({_format_signed_share(contribution.signed)})"


def _format_signed_share(signed: float) -> str:
    return f"{'+' if signed >= 0 else '-'}{format_percent(abs(signed))}"


def _describe_layers(layers: list[LayerMeasurement]) -> Iterator[str]:
    influences = {
        each.layer: each.block_influence for each in layers if each.block_influence is not None
    }
    if len(influences) > 1:
        least = min(influences, key=lambda layer: influences[layer])
        most = max(influences, key=lambda layer: influences[layer])
        tokens = _name_tokens(0, layers[0].tokens)
        yield (
            f"Block influence (mean of 1 - cos(x_in, x_out) over {tokens}): "
            f"{format_number(influences[least])} (layer {least}, smallest) to "
            f"{format_number(influences[most])} (layer {most}, largest)."
        )
    ranks = [each for each in layers if each.effective_rank is not None]
    if ranks:
        first, last = ranks[0], ranks[-1]
        yield (
            f"Effective rank of {_name_tokens(1, last.tokens)}: "
            f"{format_number(first.effective_rank)} after layer {first.layer}, "
            f"{format_number(last.effective_rank)} after layer {last.layer} (stable rank "
            f"{format_number(last.stable_rank)})."
        )


def _name_tokens(first: int, count: int) -> str:
    """Name the tokens of the short run, by position."""
    return f"tokens {first} to {count - 1} of sequence 0, run up to there"


def _describe_updates(growth: Growth) -> Iterator[str]:
    if growth.init_note is not None:
        yield f"Growth at initialisation: not measured ({shorten_text(growth.init_note)})."
    if growth.update_ratio_sqrt_depth is not None:
        yield (
            "Update ratio × √depth, second half: "
            f"{format_number(growth.update_ratio_sqrt_depth)} (1: independent, equal updates)."
        )


def _describe_sink(report: Report, adds: list[ResidualAdd]) -> Iterator[str]:
    ratios = {
        add.id: ratio
        for add in adds
        if (ratio := report.measurements.stream[add.id].sink_ratio) is not None
    }
    worst = max(ratios, key=lambda id: ratios[id], default=None)
    if worst is not None and ratios[worst] >= _SINK:
        yield (
            "Mean stream norm of first tokens over that of the others: up to "
            f"{format_number(ratios[worst])} at {shorten_text(worst)} (typical of attention sinks)."
        )
