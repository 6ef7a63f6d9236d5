"""Structural differences: stacks, layers, placement, norms, epsilons, scales."""

from __future__ import annotations

from collections.abc import Iterator

from normdiag.evidence.architecture import Norm, ResidualAdd, Scale, Stack, title_stack
from normdiag.evidence.epsilon_forms import format_denominator
from normdiag.findings import Severity
from normdiag.report.compare.comparison import Difference, DifferenceKind
from normdiag.report.compare.report_pair import (
    ReportPair,
    SiteDifference,
    fold_differences,
    format_ids,
)
from normdiag.report.compare.rounding import Rounding
from normdiag.report.compare.tensor_differences import are_all_tensors_equal


def find_structure_differences(sides: ReportPair) -> list[Difference]:
    """Find structural differences, those of stacks first."""
    differences = list(_find_unpaired_stacks(sides))
    for a, b in sides.pairing.stacks:
        differences += _compare_stacks(sides, a, b)
    differences += fold_differences(_compare_adds(sides), "adds", len(sides.pairing.adds))
    differences += _find_missing_norms(sides)
    differences += fold_differences(_compare_norms(sides), "norms", len(sides.pairing.norms))
    return differences


def _find_unpaired_stacks(sides: ReportPair) -> Iterator[Difference]:
    for name, other, report, place in (("A", "B", sides.a, 0), ("B", "A", sides.b, 1)):
        paired = {stacks[place].id for stacks in sides.pairing.stacks}
        for stack in report.architecture.stacks:
            if stack.id not in paired:
                title = title_stack(stack.id)
                what = f"{name} has a stack {title} ({stack.layers} layers, width {stack.width})"
                yield _one_sided_difference(
                    "stacks", f"{what} without counterpart in {other}", (stack.id,), place
                )


def _one_sided_difference(
    kind: DifferenceKind, message: str, ids: tuple[str, ...], place: int
) -> Difference:
    return Difference(
        kind=kind,
        severity="error",
        a=ids if place == 0 else (),
        b=ids if place == 1 else (),
        message=message,
    )


def _compare_stacks(sides: ReportPair, a: Stack, b: Stack) -> Iterator[Difference]:
    title = format_ids((title_stack(a.id), title_stack(b.id)))
    if a.width != b.width:
        message = f"the stream of {title} has {a.width} features in A and {b.width} in B"
        yield Difference(kind="width", severity="error", a=(a.id,), b=(b.id,), message=message)
    counts = []
    if a.layers != b.layers:
        counts.append(
            f"{title} has {a.layers} layers in A and {b.layers} in "
            f"B{_describe_unpaired_layers(sides, a, b)}"
        )
    x, y = a.residual_adds_per_layer, b.residual_adds_per_layer
    if x != y:
        counts.append(f"each layer of {title} has {x} residual adds in A and {y} in B")
    for message in counts:
        yield Difference(kind="layers", severity="error", a=(a.id,), b=(b.id,), message=message)


def _describe_unpaired_layers(sides: ReportPair, a: Stack, b: Stack) -> str:
    layers = sides.pairing.layers[a.id]
    only_a = [i for i in range(a.layers) if i not in layers]
    only_b = [i for i in range(b.layers) if i not in layers.values()]
    parts = [f"{_format_layers(only_a)} of A"] if only_a else []
    parts += [f"{_format_layers(only_b)} of B"] if only_b else []
    how = ", aligned by content" if any(i != j for i, j in layers.items()) else ""
    return f": {' and '.join(parts)} without counterpart{how}" if parts else ""


def _format_layers(layers: list[int]) -> str:
    is_run = len(layers) > 2 and layers[-1] - layers[0] == len(layers) - 1
    noun = "layer" if len(layers) == 1 else "layers"
    listed = f"{layers[0]} to {layers[-1]}" if is_run else ", ".join(map(str, layers))
    return f"{noun} {listed}"


def _compare_adds(sides: ReportPair) -> Iterator[SiteDifference]:
    for a, b in sides.pairing.adds:
        ids = a.id, b.id
        if a.placement != b.placement:
            text = f"the placement is {a.placement} in A and {b.placement} in B"
            yield SiteDifference("placement", "error", ids, text)
        if a.branches != b.branches:
            text = f"{a.branches} branches are summed in A and {b.branches} in B"
            yield SiteDifference("placement", "error", ids, text)
        yield from _compare_scales(a, b, sides.rounding)


def _compare_scales(a: ResidualAdd, b: ResidualAdd, rounding: Rounding) -> Iterator[SiteDifference]:
    for what, mine, theirs in (
        ("skip", a.skip_scale, b.skip_scale),
        ("branch", a.branch_scale, b.branch_scale),
    ):
        x, y = _scale_size(mine), _scale_size(theirs)
        is_learned = "learned" in (mine.kind, theirs.kind)
        if x is None or y is None:
            is_other = mine.kind != theirs.kind
        else:
            is_other = abs(x - y) > rounding.parameter_tolerance * max(abs(x), abs(y))
        if is_other:
            severity: Severity = "warning" if is_learned else "error"
            scales = f"{_format_scale(mine)} in A and {_format_scale(theirs)} in B"
            text = f"the scale on the {what} is {scales}"
            yield SiteDifference("scale", severity, (a.id, b.id), text)


def _scale_size(scale: Scale) -> float | None:
    if scale.kind == "none":
        return 1.0
    return scale.rms if scale.value is None else scale.value


def _format_scale(scale: Scale) -> str:
    size = _scale_size(scale)
    if scale.kind == "none" or size is None:
        return scale.kind
    return f"{size:.6g}" + (" (learned)" if scale.kind == "learned" else "")


def _find_missing_norms(sides: ReportPair) -> Iterator[Difference]:
    same = "; both hold equal tensors" if are_all_tensors_equal(sides) else ""
    for name, other, report, place in (("A", "B", sides.a, 0), ("B", "A", sides.b, 1)):
        paired = {norms[place].id for norms in sides.pairing.norms}
        unpaired: dict[str, list[Norm]] = {}
        for norm in report.architecture.norms:
            is_unpaired = norm.id not in paired and not _is_in_unpaired_layer(sides, norm, place)
            if is_unpaired:
                unpaired.setdefault(norm.role, []).append(norm)
        for role, norms in unpaired.items():
            ids = tuple(norm.id for norm in norms)
            more = f" and {len(ids) - 1} more" if len(ids) > 1 else ""
            message = (
                f"{name} normalises at {ids[0]}{more} (role {role}); in {other} there is neither "
                f"LayerNorm nor RMSNorm nor another norm of known form{same}"
            )
            yield _one_sided_difference("missing-norm", message, ids, place)


def _is_in_unpaired_layer(sides: ReportPair, norm: Norm, place: int) -> bool:
    """Whether the stack or layer of a norm is unpaired, which is reported instead."""
    if norm.stack is None:
        return False
    pairs = [stacks for stacks in sides.pairing.stacks if stacks[place].id == norm.stack]
    if not pairs:
        return True
    layers = sides.pairing.layers[pairs[0][0].id]
    known = layers.keys() if place == 0 else layers.values()
    return norm.layer is not None and norm.layer not in known


def _compare_norms(sides: ReportPair) -> Iterator[SiteDifference]:
    for a, b in sides.pairing.norms:
        ids = a.id, b.id
        for what, mine, theirs in (
            ("the norm is a", a.kind, b.kind),
            ("the role of the norm is", a.role, b.role),
            ("the number of features normalised over is", a.features, b.features),
        ):
            if mine != theirs and not (what == "the norm is a" and a.scaling != b.scaling):
                yield SiteDifference("norm", "error", ids, f"{what} {mine} in A and {theirs} in B")
        if not _is_same_epsilon(a.eps, b.eps, sides.rounding):
            text = f"epsilon is {_format_epsilon(a.eps)} in A and {_format_epsilon(b.eps)} in B"
            yield SiteDifference("epsilon", "error", ids, text, _relative_difference(a.eps, b.eps))
        elif a.eps_form != b.eps_form and a.kind == b.kind and a.eps:
            forms = (format_denominator(norm.eps_form, norm.kind) for norm in (a, b))
            text = "epsilon stands in {} in A and in {} in B".format(*forms)
            yield SiteDifference("epsilon", "error", ids, text)
        if a.scaling != b.scaling:
            formulas = (norm.scaling or f"normalised by a {norm.kind}" for norm in (a, b))
            text = "x is {} in A and {} in B".format(*formulas)
            yield SiteDifference("norm", "error", ids, text)


def _is_same_epsilon(a: float | None, b: float | None, rounding: Rounding) -> bool:
    x, y = a or 0.0, b or 0.0
    return abs(x - y) <= rounding.parameter_tolerance * max(x, y)


def _format_epsilon(eps: float | None) -> str:
    return "none" if eps is None else f"{eps:.6g}"


def _relative_difference(a: float | None, b: float | None) -> float | None:
    """|a - b| / max."""
    x, y = a or 0.0, b or 0.0
    return abs(x - y) / max(x, y)
