"""Tensors of one name: in another order, transposed, exchanged with each other; buffers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from normdiag.evidence.weights import TensorFingerprint
from normdiag.report.compare.comparison import Difference
from normdiag.report.compare.report_pair import ReportPair
from normdiag.report.compare.rounding import Rounding

_CLEAR = 4.0
"""Times the slack of rounding: sums so far apart are not those of weights that changed little."""
Fingerprints = Mapping[str, TensorFingerprint]


def find_tensor_differences(sides: ReportPair, *, has_moved_layers: bool) -> Iterator[Difference]:
    """Find what sums over branches cannot show; exchanged layers are described elsewhere."""
    mine, theirs = _get_fingerprints(sides)
    unequal = list_unequal_tensors(sides)
    exchanged: set[str] = set()
    for name in unequal:
        x, y = mine[name], theirs[name]
        if name in exchanged:
            continue
        partner = None if has_moved_layers else _find_partner(name, unequal, sides)
        if partner is not None:
            exchanged.add(partner)
            text = f"the tensors {name} and {partner} are exchanged"
            yield _tensor_difference(sides, (name, partner), text)
        elif x.is_buffer or y.is_buffer:
            text = f"the buffer {name} differs: {_format_sums(x)} in A, {_format_sums(y)} in B"
            yield Difference(kind="buffer", severity="warning", a=(name,), b=(name,), message=text)
        elif _is_reordered(x, y, sides.rounding):
            text = f"the weight {name} has the same values in another order: "
            yield _tensor_difference(sides, (name,), text + _describe_order(x, y, sides.rounding))


def describe_unequal_tensors(sides: ReportPair) -> Iterator[Difference]:
    """One difference for all: values that reach nothing else that was compared."""
    names = list_unequal_tensors(sides)
    if names:
        text = f"tensors that differ: {format_names(names)}; nothing else that was compared does"
        yield Difference(
            kind="tensors", severity="warning", a=tuple(names), b=tuple(names), message=text
        )


def format_names(names: list[str]) -> str:
    """The first three, and how many more."""
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"{', '.join(names[:3])}{more}"


def list_unequal_tensors(sides: ReportPair) -> list[str]:
    """Names that both have with one shape, and whose sums differ beyond rounding."""
    mine, theirs = _get_fingerprints(sides)
    return [
        name
        for name, x in mine.items()
        if name in theirs
        and x.shape == theirs[name].shape
        and not _is_same(x, theirs[name], sides.rounding)
    ]


def are_all_tensors_equal(sides: ReportPair) -> bool:
    """Whether both hold sums of the same tensors, and these agree."""
    mine, theirs = _get_fingerprints(sides)
    shapes = [{name: x.shape for name, x in side.items()} for side in (mine, theirs)]
    return bool(mine) and shapes[0] == shapes[1] and not list_unequal_tensors(sides)


def _get_fingerprints(sides: ReportPair) -> tuple[Fingerprints, Fingerprints]:
    mine, theirs = sides.a.measurements.weights, sides.b.measurements.weights
    return mine.fingerprints if mine else {}, theirs.fingerprints if theirs else {}


def have_equal_sums(x: TensorFingerprint, y: TensorFingerprint, tolerance: float) -> bool:
    """Whether sums of y are those of some x + E with ||E|| <= `tolerance` ||x||.

    E may be the same in all rows or columns, as where a hidden state was rounded before the head:
    over n elements it sums up to sqrt(n) ||E||. Only weights of random sign keep it at ||E||.
    """
    slack = tolerance * math.sqrt(max(x.squares, y.squares))
    rows = x.shape[0] if x.shape else 1
    elements = math.prod(x.shape)
    return (
        x.shape == y.shape
        and abs(math.sqrt(x.squares) - math.sqrt(y.squares)) <= slack
        and abs(x.by_cell - y.by_cell) <= slack
        and abs(x.by_row - y.by_row) <= slack * math.sqrt(elements / rows)
        and abs(x.by_column - y.by_column) <= slack * math.sqrt(rows)
        and abs(x.sum - y.sum) <= slack * math.sqrt(elements)
    )


def _find_partner(name: str, names: list[str], sides: ReportPair) -> str | None:
    mine, theirs = _get_fingerprints(sides)
    for other in names:
        if other != name and (
            _is_same(mine[name], theirs[other], sides.rounding)
            and _is_same(mine[other], theirs[name], sides.rounding)
        ):
            return other
    return None


def _tensor_difference(sides: ReportPair, names: tuple[str, ...], message: str) -> Difference:
    return Difference(kind="weight-order", severity="error", a=names, b=names, message=message)


def _slack(x: TensorFingerprint, y: TensorFingerprint, rounding: Rounding) -> float:
    """Of a weighted sum: its elements were rounded one by one; 1e-12 for the order of summing."""
    size = math.sqrt(max(x.squares, y.squares))
    return (rounding.parameter_tolerance + 1e-12 * math.sqrt(math.prod(x.shape))) * size


def _is_reordered(x: TensorFingerprint, y: TensorFingerprint, rounding: Rounding) -> bool:
    """Whether the sums agree that no order changes, and the others are far apart: weights that were
    trained on may agree in the former by chance."""
    slack = _slack(x, y, rounding)
    tolerance = 2 * rounding.norm_tolerance(math.prod(x.shape))
    is_close = abs(x.squares - y.squares) <= tolerance * max(x.squares, y.squares)
    apart = max(abs(p - q) for p, q in _pair_ordered_sums(x, y))
    return is_close and abs(x.sum - y.sum) <= slack and apart > _CLEAR * slack


def _is_same(x: TensorFingerprint, y: TensorFingerprint, rounding: Rounding) -> bool:
    """Whether all sums agree. Equal values are rounded alike: their sums change in proportion."""
    slack, share = _slack(x, y, rounding), rounding.parameter_tolerance
    return (
        x.shape == y.shape
        and abs(math.sqrt(x.squares) - math.sqrt(y.squares)) <= slack
        and all(
            abs(p - q) <= slack + share * max(abs(p), abs(q))
            for p, q in ((x.sum, y.sum), *_pair_ordered_sums(x, y))
        )
    )


def _pair_ordered_sums(
    x: TensorFingerprint, y: TensorFingerprint
) -> tuple[tuple[float, float], ...]:
    return (x.by_row, y.by_row), (x.by_column, y.by_column), (x.by_cell, y.by_cell)


def _describe_order(x: TensorFingerprint, y: TensorFingerprint, rounding: Rounding) -> str:
    slack = _slack(x, y, rounding)
    same_rows, same_columns = (
        abs(p - q) <= slack for p, q in ((x.by_row, y.by_row), (x.by_column, y.by_column))
    )
    crossed = ((x.by_row, y.by_column), (x.by_column, y.by_row), (x.by_cell, y.by_cell))
    if len(x.shape) == 2 and all(abs(p - q) <= slack for p, q in crossed):
        return "it is transposed"
    if len(x.shape) < 2:
        return "its elements are permuted (exchanged halves, for instance)"
    if same_columns and not same_rows:
        return "its rows are permuted (exchanged halves, for instance)"
    if same_rows and not same_columns:
        return "its columns are permuted (exchanged halves, for instance)"
    return "it is permuted"


def _format_sums(x: TensorFingerprint) -> str:
    count = math.prod(x.shape)
    if count == 1:
        return f"{x.sum:.6g}"
    return f"rms {math.sqrt(x.squares / count):.6g}, mean {x.sum / count:.6g}"
