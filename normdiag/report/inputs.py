"""Whether two reports were run on the same inputs."""

from __future__ import annotations

from normdiag.evidence.subject import InputSummary


def are_same_inputs(a: InputSummary, b: InputSummary) -> bool:
    """Compare digests where both have one, else the descriptions of the inputs."""
    if a.digest is not None and b.digest is not None:
        return (a.digest, a.tokens) == (b.digest, b.tokens)
    descriptions = [(p.kind, p.sequences, p.tokens, p.texts, p.seed) for p in (a, b)]
    return descriptions[0] == descriptions[1]
