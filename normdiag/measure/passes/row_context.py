"""Token layouts, sampler and storage that the measurements of one pass share."""

from __future__ import annotations

from dataclasses import dataclass, field

from normdiag.graph import Node
from normdiag.measure.statistics.rows import Sampler, Tokens
from normdiag.measure.statistics.slab import Slab
from normdiag.measure.statistics.token_layouts import TokenLayouts


@dataclass(frozen=True, slots=True)
class RowContext:
    """Decides which rows of a site are tokens and which are sampled; stores results."""

    layouts: TokenLayouts
    sampler: Sampler
    slab: Slab = field(default_factory=Slab)

    def site_tokens(self, node: Node, lead: tuple[int, ...], groups: int = 1) -> Tokens:
        """The tokens of the rows of `node`, whose axes without features have sizes `lead`."""
        return self.layouts.layout_of(node).site_tokens(lead, groups)
