"""What relates the adds of a stack over its whole depth, from short passes of their own."""

from __future__ import annotations

from dataclasses import replace

from normdiag.errors import TargetError
from normdiag.evidence.coverage import Skipped
from normdiag.evidence.measurements import Measurements
from normdiag.evidence.stream import Growth
from normdiag.inputs.batch import Batch
from normdiag.loading.interface import Runnable
from normdiag.measure.depth.contributions import ledger
from normdiag.measure.depth.duplicates import duplicate_layers
from normdiag.measure.depth.first_sequence import first_sequence
from normdiag.measure.depth.layers import layer_measurements
from normdiag.measure.depth.yardstick import growth_at_initialisation


def along_depth(
    loaded: Runnable, batch: Batch, measured: Measurements, seed: int
) -> tuple[Measurements, tuple[Skipped, ...]]:
    """`measured` with contributions, layers, duplicates and the yardstick of growth; what of it
    there is not, and why."""
    growth = _against_init(loaded, batch, measured.growth, seed)
    measured = replace(measured, growth=growth)
    try:
        return _of_first_sequence(loaded, batch, measured), ()
    except TargetError as error:
        return measured, (Skipped(what="contributions and layers", why=error.what),)


def _of_first_sequence(loaded: Runnable, batch: Batch, measured: Measurements) -> Measurements:
    assembly = first_sequence(loaded.model, batch)
    records, learned = assembly.first.sites.adds, assembly.learned
    stream, growth, layers = dict(measured.stream), dict(measured.growth), dict(measured.layers)
    for name, stack in assembly.sites.stacks.items():
        layers |= layer_measurements(name, stack, records, learned)
        books = ledger(stack, records, learned)
        if books is None:
            continue
        if name in growth:
            growth[name] = replace(growth[name], start=books.start)
        for add, written in zip(stack.chain.adds, books.writes, strict=True):
            id = assembly.sites.adds[add]
            if id in stream:
                stream[id] = replace(stream[id], contribution=written)
    return replace(
        measured,
        stream=stream,
        growth=growth,
        layers=layers,
        duplicates=duplicate_layers(loaded.model, assembly.sites.stacks),
    )


def _against_init(
    loaded: Runnable, batch: Batch, growth: dict[str, Growth], seed: int
) -> dict[str, Growth]:
    if not growth:
        return growth
    if loaded.mode == "random-init":
        totals = {name: law.total for name, law in growth.items()}
    else:
        try:
            totals = growth_at_initialisation(loaded.model, batch, seed)
        except TargetError as error:
            return {name: replace(law, init_note=error.what) for name, law in growth.items()}
    return {
        name: replace(law, init_total=totals[name], over_init=law.total / totals[name])
        if totals.get(name)
        else law
        for name, law in growth.items()
    }
