"""What relates the adds of a stack over its whole depth, from one short forward of its own."""

from __future__ import annotations

from dataclasses import replace

from torch import nn

from normdiag.errors import TargetError
from normdiag.evidence.coverage import SkippedMeasurement
from normdiag.evidence.measurements import Measurements
from normdiag.inputs.batch import Batch
from normdiag.measure.depth.contributions import attribute_stream
from normdiag.measure.depth.duplicates import find_duplicate_layers
from normdiag.measure.depth.first_sequence import run_first_sequence
from normdiag.measure.depth.layers import measure_layers


def relate_layers(
    model: nn.Module, batch: Batch, measurements: Measurements
) -> tuple[Measurements, tuple[SkippedMeasurement, ...]]:
    """Return `measurements` with contributions, layers and duplicates; and what failed."""
    try:
        return _extend(model, batch, measurements), ()
    except TargetError as error:
        return measurements, (SkippedMeasurement(what="contributions and layers", why=error.what),)


def _extend(model: nn.Module, batch: Batch, measurements: Measurements) -> Measurements:
    short = run_first_sequence(model, batch)
    records, learned = short.records.adds, short.learned
    stream, growth = dict(measurements.stream), dict(measurements.growth)
    layers = dict(measurements.layers)
    for name, stack in short.sites.stacks.items():
        layers |= measure_layers(name, stack, records, learned)
        attribution = attribute_stream(stack, records, learned)
        if attribution is None:
            continue
        if name in growth:
            growth[name] = replace(growth[name], initial_contribution=attribution.start)
        for add, contribution in zip(stack.chain.adds, attribution.writes, strict=True):
            id = short.sites.adds[add]
            if id in stream:
                stream[id] = replace(stream[id], contribution=contribution)
    return replace(
        measurements,
        stream=stream,
        growth=growth,
        layers=layers,
        duplicates=find_duplicate_layers(model, short.sites.stacks),
    )
