"""Each norm recomputed from its operands, each add from its own."""

from __future__ import annotations

from normdiag.evidence.record import record


@record
class Replay:
    """The largest |recomputed - seen| / max |seen| of one site, over the tokens that were replayed."""

    max_rel_error: float
