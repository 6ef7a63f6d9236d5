"""What a stack does over its whole depth, in words: who writes what, what rank is left, sinks."""

from __future__ import annotations

from collections.abc import Iterator

from normdiag.evidence.architecture import ResidualAdd, Stack
from normdiag.evidence.layers import LayerMeasurement
from normdiag.evidence.stream import Growth
from normdiag.render.escape import escape_text
from normdiag.render.units import count, number, percent, times
from normdiag.report.report import Report

_WRITERS = 3
_SINK = 2.0
"""First tokens whose stream is this many times as long as the others' are worth a sentence."""


def sentences(report: Report, stack: Stack) -> Iterator[str]:
    """Yield what was measured over the depth of `stack`, a sentence or two each."""
    adds = [
        add
        for add in report.architecture.adds_of_stack(stack.id)
        if add.id in report.measurements.stream
    ]
    yield from _writers(report, adds, report.measurements.growth.get(stack.id))
    layers = [each for each in report.measurements.layers.values() if each.stack == stack.id]
    yield from _layers(sorted(layers, key=lambda each: each.layer))
    yield from _pace(report.measurements.growth.get(stack.id))
    yield from _sink(report, adds)


def _writers(report: Report, adds: list[ResidualAdd], growth: Growth | None) -> Iterator[str]:
    written = {
        add.id: share
        for add in adds
        if (share := report.measurements.stream[add.id].contribution) is not None
    }
    if not written:
        return
    largest = sorted(written, key=lambda id: -abs(written[id].signed))[:_WRITERS]
    named = ", ".join(f"{_share(written[id].signed)} {escape_text(id)}" for id in largest)
    start = None if growth is None else growth.initial_contribution
    began = "" if start is None else f"; what the stack starts from: {_share(start.signed)}"
    yield (
        "Largest writers, as parts of the stream's last value over "
        f"{count(written[largest[0]].tokens, 'token')}: {named}{began}."
    )


def _share(signed: float) -> str:
    return f"{'+' if signed >= 0 else '-'}{percent(abs(signed))}"


def _layers(layers: list[LayerMeasurement]) -> Iterator[str]:
    turns = {each.layer: each.block_influence for each in layers if each.block_influence is not None}
    if len(turns) > 1:
        least, most = min(turns, key=lambda k: turns[k]), max(turns, key=lambda k: turns[k])
        yield (
            f"Block influence, 1 - cos(in, out): {number(turns[least])} in layer {least}, the "
            f"least, to {number(turns[most])} in layer {most}."
        )
    ranks = [each for each in layers if each.effective_rank is not None]
    if ranks:
        first, last = ranks[0], ranks[-1]
        yield (
            f"Effective rank of {last.tokens - 1} tokens: {number(first.effective_rank)} after "
            f"layer {first.layer}, {number(last.effective_rank)} after layer {last.layer} (stable "
            f"rank {number(last.stable_rank)})."
        )


def _pace(growth: Growth | None) -> Iterator[str]:
    if growth is None:
        return
    if growth.init_note is not None:
        yield f"No growth at initialisation to compare with: {escape_text(growth.init_note)}."
    if growth.update_ratio_sqrt_depth is not None:
        yield (
            f"Updates in the later half are {times(growth.update_ratio_sqrt_depth)} those of independent writes of "
            "one size, which are diluted as 1/sqrt(l)."
        )


def _sink(report: Report, adds: list[ResidualAdd]) -> Iterator[str]:
    ratios = {
        add.id: ratio
        for add in adds
        if (ratio := report.measurements.stream[add.id].sink_ratio) is not None
    }
    worst = max(ratios, key=lambda id: ratios[id], default=None)
    if worst is not None and ratios[worst] >= _SINK:
        yield (
            f"First tokens stand apart: their stream is up to {times(ratios[worst])} as long as "
            f"the others', at {escape_text(worst)}. They often serve as attention sinks."
        )
