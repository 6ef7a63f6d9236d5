"""The static pass: every floating tensor of the checkpoint, of modules never called too."""

from __future__ import annotations

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
