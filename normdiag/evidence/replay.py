"""Each norm recomputed from its operands, each add from its own."""

from __future__ import annotations

from normdiag.evidence.record import record


@record
class Replay:
    """The largest |recomputed - seen| / max |seen| of one site, over the replayed tokens."""

    max_rel_error: float
