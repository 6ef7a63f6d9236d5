"""Replay: each norm and add recomputed from its operands."""

from __future__ import annotations

from normdiag.evidence.record import record


@record
class Replay:
    """max |recomputed - recorded| / max |recorded| of one site, over the replayed tokens."""

    max_rel_error: float
