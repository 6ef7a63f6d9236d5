"""Conditioning, small variance, what is nearest to a limit, and how complete all of it is."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from normdiag.evidence.architecture import find_layer_stack
from normdiag.number_text import format_count, format_number, format_percent, format_value
from normdiag.render.elements import Element, Fact, FactList, Heading
from normdiag.render.escape import shorten_text
from normdiag.render.sections.norms import find_largest_kappa
from normdiag.render.sections.stack_names import name_stack
from normdiag.render.sort_key import nan_as_largest
from normdiag.report.report import Report

_NEAREST = 3
"""Limits that are named; a report holds more of them."""


def section(report: Report, *, all_rows: bool) -> Iterator[Element]:
    """Yield one line for each question."""
    yield Heading(title="Conditioning and coverage")
    lines = {
        "blocks": _describe_blocks(report),
        "norms": _describe_norms(report),
        "variance": _describe_variances(report),
        "nearest": _describe_nearest(report),
        "checked": _describe_coverage(report),
        "more": iter(("--full or --html FILE", "normdiag trace TARGET", "normdiag rules CODE")),
    }
    facts = (Fact(label=label, lines=tuple(clauses)) for label, clauses in lines.items())
    yield FactList(facts=tuple(fact for fact in facts if fact.lines), has_clauses=True)


def _describe_blocks(report: Report) -> Iterator[str]:
    """The condition number of the worst and of the typical layer, each a median over tokens."""
    layers = {
        id: block
        for id, block in report.measurements.blocks.items()
        if block.span == "layer" and block.kappa is not None
    }
    if not layers:
        if report.architecture.stacks:
            yield "no layer's Jacobian was measured"
        return
    worst = max(layers, key=lambda id: nan_as_largest(layers[id].kappa or 0.0))
    middle = median(block.kappa for block in layers.values() if block.kappa is not None)
    least = "at least " if layers[worst].is_bound else ""
    yield (
        f"median kappa up to {least}{format_number(layers[worst].kappa)} in layer "
        f"{layers[worst].layer} of {name_stack(find_layer_stack(worst) or '')}"
    )
    yield f"{format_number(middle)} in the median layer"


def _describe_norms(report: Report) -> Iterator[str]:
    """The largest condition number of a norm over tokens."""
    kappas = {
        id: kappa
        for id, each in report.measurements.norms.items()
        if (kappa := find_largest_kappa(each)) is not None
    }
    if not kappas:
        if report.measurements.norms:
            yield "no norm's Jacobian was measured"
        return
    worst = max(kappas, key=lambda id: nan_as_largest(kappas[id]))
    yield f"largest kappa {format_number(kappas[worst])} in {shorten_text(worst)}"
    yield f"{format_number(median(kappas.values()))} in the median norm"


def _describe_variances(report: Report) -> Iterator[str]:
    """The smallest mean square that a norm divides by, and the largest share of an epsilon."""
    norms = report.measurements.norms
    if not norms:
        return
    smallest = max(norms, key=lambda id: nan_as_largest(-norms[id].input_var.min))
    largest = max(norms, key=lambda id: nan_as_largest(norms[id].eps_share.max))
    share = format_percent(norms[largest].eps_share.max)
    reach = f"below {share[1:]}" if share.startswith("<") else f"up to {share}"
    yield f"smallest {format_number(norms[smallest].input_var.min)} in {shorten_text(smallest)}"
    yield f"epsilon's share {reach}" + (
        "" if largest == smallest else f" in {shorten_text(largest)}"
    )


def _describe_nearest(report: Report) -> Iterator[str]:
    """What is closest to its threshold among the rules that passed."""
    for near in report.rules.nearest[:_NEAREST]:
        yield (
            f"{shorten_text(near.quantity)} {format_value(near.value)} of {near.healthy_side} "
            f"{format_value(near.limit)} ({shorten_text(near.code)})"
        )


def _describe_coverage(report: Report) -> Iterator[str]:
    """How exactly the structure explains the run, and how much it does not."""
    coverage = report.coverage
    gaps = (
        (len(coverage.unexplained_adds), "addition"),
        (len(coverage.unexplained_norms), "norm"),
    )
    unexplained = [format_count(many, noun) for many, noun in gaps if many]
    closures = [each.max_rel_error for each in report.measurements.closure.values()]
    replays = [each.max_rel_error for each in report.measurements.replay.values()]
    if unexplained:
        yield f"{' and '.join(unexplained)} not explained"
    if coverage.skipped:
        yield f"{format_count(len(coverage.skipped), 'measurement')} not made"
    if closures:
        yield f"reconstruction error {format_number(_find_largest(closures))}"
    if replays:
        yield f"replay error {format_number(_find_largest(replays))}"
    if not unexplained and (closures or replays):
        yield "every norm and add explained"


def _find_largest(values: list[float]) -> float:
    return max(values, key=nan_as_largest)
