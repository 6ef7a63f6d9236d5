"""Whether two reports were made with the same inputs, as far as they tell."""

from __future__ import annotations

from normdiag.evidence.subject import InputSummary


def are_same_inputs(a: InputSummary, b: InputSummary) -> bool:
    """By the digests where both have one, else by all that is said of the inputs."""
    if a.digest is not None and b.digest is not None:
        return (a.digest, a.tokens) == (b.digest, b.tokens)
    said = [(p.kind, p.sequences, p.tokens, p.texts, p.seed) for p in (a, b)]
    return said[0] == said[1]
