"""What is measured beyond the main pass: each column by its own means, and each may fail alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from normdiag.evidence.coverage import Skipped
from normdiag.evidence.measurements import Measurements
from normdiag.inputs.batch import Batch
from normdiag.loading.interface import Runnable
from normdiag.measure.blocks.blocks import measure_blocks, steps
from normdiag.measure.branch_weights import branch_weights
from normdiag.measure.depth.depth import along_depth
from normdiag.measure.gradients.backward import flow_back
from normdiag.measure.invariances.invariances import invariances
from normdiag.measure.precision.precision import precision
from normdiag.measure.sites.assembly import Assembly
from normdiag.options import Options
from normdiag.progress import Progress

Filled = tuple[Measurements, Sequence[Skipped]]


@dataclass(frozen=True, slots=True)
class Ran:
    """A model, what was run through it first, and what that pass saw."""

    loaded: Runnable
    batch: Batch
    assembly: Assembly
    options: Options
    progress: Progress


@dataclass(frozen=True, slots=True)
class Column:
    """One kind of evidence: the measure that asks for it, what is told meanwhile, what fills it."""

    measure: str
    told: str
    fill: Callable[[Ran, Measurements], Filled]
    steps: Callable[[Ran], int | None] = lambda _: None


def fill_columns(ran: Ran, measurements: Measurements) -> Filled:
    """`measurements` with all that the options ask for, and what could not be measured."""
    skipped: list[Skipped] = []
    for column in COLUMNS:
        if column.measure in ran.options.measure:
            ran.progress.start(column.told, column.steps(ran))
            measurements, more = column.fill(ran, measurements)
            skipped += more
            ran.progress.done()
    return measurements, skipped


def _depth(ran: Ran, measurements: Measurements) -> Filled:
    return along_depth(ran.loaded, ran.batch, measurements, ran.options.seed)


def _precision(ran: Ran, measurements: Measurements) -> Filled:
    return replace(measurements, precision=precision(ran.assembly, measurements)), []


def _branch_weights(ran: Ran, measurements: Measurements) -> Filled:
    weights = branch_weights(ran.loaded.model, ran.assembly.sites)
    return replace(measurements, branch_weights=weights), []


def _invariances(ran: Ran, measurements: Measurements) -> Filled:
    blind = invariances(ran.loaded.model, ran.batch, ran.assembly, measurements.norms)
    return replace(measurements, invariances=blind), []


def _blocks(ran: Ran, measurements: Measurements) -> Filled:
    blocks, skipped = measure_blocks(ran.loaded.model, ran.batch, ran.progress.advance)
    return replace(measurements, blocks=blocks), skipped


def _gradients(ran: Ran, measurements: Measurements) -> Filled:
    flow = flow_back(ran.loaded, ran.batch, ran.options)
    if isinstance(flow, Skipped):
        return measurements, [flow]
    return replace(measurements, gradients=flow), []


# The gradients come first: they need the most memory, and what others leave behind would add to it.
COLUMNS = (
    Column("gradients", "following the gradient back", _gradients),
    Column("stream", "relating the layers", _depth),
    Column("stream", "trying number formats", _precision),
    Column("stream", "adding up weights", _branch_weights),
    Column(
        "jacobians",
        "differentiating the blocks",
        _blocks,
        lambda ran: steps(ran.assembly.sites.architecture),
    ),
    Column("norms", "probing the norms", _invariances),
)
