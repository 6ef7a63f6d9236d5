"""All passes of one model put together: evidence by site id."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from normdiag.evidence.coverage import Skipped
from normdiag.evidence.measurements import Measurements
from normdiag.evidence.norm_inputs import NormMeasurement
from normdiag.evidence.replay import Replay
from normdiag.evidence.stream import AddMeasurement, Closure, Growth
from normdiag.measure.closure import close
from normdiag.measure.forward import Pass
from normdiag.measure.growth import grow
from normdiag.measure.head import head_input
from normdiag.measure.jacobians import norm_jacobian
from normdiag.measure.learned import LearnedValues
from normdiag.measure.norm_inputs import measure_norm
from normdiag.measure.observer import AddRecord, NormRecord
from normdiag.measure.replay import replay_add, replay_norm
from normdiag.measure.stream import Rows, TokenNumbers, measure_add
from normdiag.structure.describe import Sites, describe


@dataclass(slots=True)
class Assembly:
    """The sites of the first pass, and what every pass saw of them."""

    passes: list[Pass]
    sites: Sites
    learned: LearnedValues
    norms: dict[str, list[tuple[NormRecord, Rows]]]
    """Per norm: its record in each pass, and the numbers of that pass's sequences."""
    adds: dict[str, list[tuple[AddRecord, Rows]]]
    skipped: list[Skipped] = field(default_factory=list)


def assemble(passes: list[Pass], rows: Sequence[Rows]) -> Assembly:
    """`rows[i]`: which sequences of the probe pass i ran."""
    values = {}
    for done in passes:
        values.update(done.sites.values)
    learned = LearnedValues(values)
    described = [describe(p.graph, p.reading.norms, p.stacks, learned) for p in passes]
    norms: dict[str, list[tuple[NormRecord, Rows]]] = defaultdict(list)
    adds: dict[str, list[tuple[AddRecord, Rows]]] = defaultdict(list)
    for done, sites, own in zip(passes, described, rows, strict=True):
        for norm, name in sites.norms.items():
            if norm in done.sites.norms:
                norms[name].append((done.sites.norms[norm], own))
        for add, name in sites.adds.items():
            if add in done.sites.adds:
                adds[name].append((done.sites.adds[add], own))
    assembly = Assembly(passes, described[0], learned, dict(norms), dict(adds))
    unkept = sorted(set(described[0].adds.values()) - set(adds))
    if unkept:
        assembly.skipped.append(
            Skipped(
                what=", ".join(unkept[:8]) + (", .." if len(unkept) > 8 else ""),
                why="another residual add ran between the branches that are summed here",
            )
        )
    known = {*described[0].norms.values(), *described[0].adds.values()}
    later = sorted({*norms, *adds} - known)
    if later:
        assembly.skipped.append(
            Skipped(
                what=", ".join(later[:8]) + (", .." if len(later) > 8 else ""),
                why="these sites ran for some inputs only, not for the first ones",
            )
        )
        for name in later:
            norms.pop(name, None)
            adds.pop(name, None)
    return assembly


def measure(
    assembly: Assembly, wanted: Sequence[str], step: Callable[[], None]
) -> tuple[Measurements, dict[str, TokenNumbers]]:
    """Numbers of every site. `step` is called after each norm's Jacobian, the slow part."""
    replay: dict[str, Replay] = {}
    norms: dict[str, NormMeasurement] = {}
    for name, records in assembly.norms.items():
        own = [r for r, _ in records]
        again = replay_norm(own, assembly.learned)
        if again is not None:
            replay[name] = again
        jacobian = norm_jacobian(own, assembly.learned) if "jacobians" in wanted else None
        if "norms" in wanted or jacobian is not None:
            measured = measure_norm(own, assembly.learned, jacobian)
            if measured is not None:
                norms[name] = measured
        step()
    stream: dict[str, AddMeasurement] = {}
    numbers: dict[str, TokenNumbers] = {}
    for name, pairs in assembly.adds.items():
        added = [r for r, _ in pairs]
        replay[name] = replay_add(added)
        measured_add = measure_add(added, [own for _, own in pairs])
        if measured_add is not None:
            stream[name], numbers[name] = measured_add
    is_streamed = "stream" in wanted
    return Measurements(
        norms=norms,
        stream=stream,
        growth=_growth(assembly, numbers) if is_streamed else {},
        closure=_closure(assembly) if is_streamed else {},
        replay=replay,
        head_input=head_input(assembly.passes) if is_streamed else None,
    ), numbers


def _growth(assembly: Assembly, numbers: dict[str, TokenNumbers]) -> dict[str, Growth]:
    found = {}
    for name, stack in assembly.sites.stacks.items():
        ids = [assembly.sites.adds[f.add] for f in stack.adds]
        growth = grow([numbers[i] for i in ids if i in numbers])
        if growth is not None:
            found[name] = growth
    return found


def _closure(assembly: Assembly) -> dict[str, Closure]:
    found: dict[str, Closure] = {}
    first = assembly.passes[0]
    for name, stack in assembly.sites.stacks.items():
        closed = close(stack, first.sites.adds, assembly.learned)
        if closed is not None:
            found[name] = closed
        else:
            assembly.skipped.append(
                Skipped(
                    what=f"closure of {name}",
                    why="tokens change places or number between its adds",
                )
            )
    return found
