"""The static pass: every floating tensor of the checkpoint, of modules never called too."""

from __future__ import annotations

from dataclasses import field

from normdiag.evidence.record import record


@record
class TensorSummary:
    """One floating tensor with non-finite values or only zeros."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    """As stored in the checkpoint."""
    loaded_dtype: str | None
    nonfinite: int
    zeros: int
    elements: int
    max_abs: float
    nans: int | None = None
    """How many of `nonfinite` are NaN; null in reports that did not count them."""
    first_nonfinite: tuple[int, ...] | None = None


@record
class TensorFingerprint:
    """Five float64 sums over a tensor x; rows along its first axis, columns along the rest.

    r(i) are fixed pseudo-random numbers in [-1, 1), so that another order gives other sums.
    """

    shape: tuple[int, ...]
    sum: float
    squares: float
    """Sum of x². Like `sum`, the same in any order."""
    by_row: float
    """Sum of r(i) x_ij: the same for columns in any order."""
    by_column: float
    """Sum of r(j) x_ij: the same for rows in any order."""
    by_cell: float
    """Sum of r(i) r(j) x_ij: the same for the transposed matrix."""
    is_buffer: bool = False


@record
class StaticPass:
    """Summary of the static pass and the flagged tensors."""

    tensors: int
    elements: int
    nonfinite: int
    dtypes: dict[str, int]
    """Tensors per dtype as stored."""
    flagged: tuple[TensorSummary, ...]
    vectors: tuple[TensorSummary, ...] = ()
    """One-dimensional tensors (gains and biases); filled for weights-only targets."""
    empty: tuple[str, ...] = ()
    """Names of floating tensors without elements, which `tensors` does not count."""
    fingerprints: dict[str, TensorFingerprint] = field(default_factory=dict)
    """By name, of every floating tensor with finite values; empty in older reports."""
