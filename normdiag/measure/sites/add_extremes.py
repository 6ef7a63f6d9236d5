"""The largest operands of one residual add, and what number formats lose at it, over all passes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from normdiag.measure.passes.records import AddRecord
from normdiag.measure.statistics.earliest_pass import EarliestPass
from normdiag.measure.statistics.extremes import larger_value


@dataclass(frozen=True, slots=True)
class AddDtypes:
    """The formats of y, x and u of y = x + u."""

    out: str
    skip: str
    branch: str


@dataclass(frozen=True, slots=True)
class AddRange:
    """What formats meet at one add y = x + u. Maxima are over tokens that are not padding."""

    dtypes: AddDtypes | None
    """Of the earliest pass; None where no pass measured extremes."""
    skip_max: float
    branch_max: float
    padded_nonfinite: int
    """How many padded tokens hold values of y that are not finite."""
    nonfinite_elements: int
    absorbed_elements: int
    """How many elements have u != 0 and x + u = x, of `written_elements` with u != 0, where x, u
    and y are of one half precision."""
    written_elements: int


@dataclass(slots=True)
class AddExtremes:
    """Accumulator of one add's `AddRange`."""

    dtypes: EarliestPass[AddDtypes] = field(default_factory=EarliestPass)
    skip_max: float = 0.0
    branch_max: float = 0.0
    padded_nonfinite: int = 0
    nonfinite_elements: int = 0
    absorbed_elements: int = 0
    written_elements: int = 0

    def update(self, record: AddRecord, sequences: Sequence[int]) -> None:
        """Add one pass, if it measured statistics."""
        statistics, valid, add = record.statistics, record.tokens.valid, record.add
        if statistics is None:
            return
        extremes = statistics.extremes
        dtypes = AddDtypes(add.node.dtype, add.skip.dtype, add.branches[-1].dtype)
        self.dtypes.update(sequences, dtypes)
        self.skip_max = larger_value(self.skip_max, float(extremes.skip))
        self.branch_max = larger_value(self.branch_max, float(extremes.branch))
        if valid is not None:
            is_bad = ~statistics.out_square.isfinite()
            self.padded_nonfinite += int(is_bad.sum() - is_bad[valid].sum())
        self.nonfinite_elements += int(extremes.nonfinite_elements)
        if extremes.absorbed_elements is not None and extremes.written_elements is not None:
            self.absorbed_elements += int(extremes.absorbed_elements)
            self.written_elements += int(extremes.written_elements)

    def merge(self, other: AddExtremes) -> None:
        """Add the passes of `other`."""
        self.dtypes.merge(other.dtypes)
        self.skip_max = larger_value(self.skip_max, other.skip_max)
        self.branch_max = larger_value(self.branch_max, other.branch_max)
        self.padded_nonfinite += other.padded_nonfinite
        self.nonfinite_elements += other.nonfinite_elements
        self.absorbed_elements += other.absorbed_elements
        self.written_elements += other.written_elements

    def compute(self) -> AddRange:
        """Of all passes."""
        return AddRange(
            self.dtypes.compute(),
            self.skip_max,
            self.branch_max,
            self.padded_nonfinite,
            self.nonfinite_elements,
            self.absorbed_elements,
            self.written_elements,
        )
