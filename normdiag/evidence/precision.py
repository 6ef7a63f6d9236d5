"""What number formats would do to what was seen: overflow, swallowed updates, lost epsilon."""

from __future__ import annotations

from dataclasses import field

from normdiag.evidence.record import record


@record
class Format:
    """One number format against everything that was measured."""

    largest: float
    """The largest finite value of the format."""
    headroom: dict[str, float]
    """Site id (add, norm input, product inside a branch) -> largest / max |value|; below 1 it
    overflows."""
    square_headroom: dict[str, float]
    """Norm id -> largest / max x^2, for norms that square in the format itself."""
    swallowed: dict[str, float]
    """Add id -> share of the non-zero elements of u that leave x + u = x."""
    rescale: float | None
    """The power of two by which the whole stream must be scaled down to leave `spare`; null where
    nothing overflows."""
    first_layer: dict[str, int] = field(default_factory=dict)
    """Stack id -> the layer from which on the stream does not fit."""


@record
class LogitBound:
    """The largest |q . k| * scale that the gains of q and k norms allow, and the largest seen."""

    bound: float
    seen: float | None


@record
class Precision:
    """Per format ("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")."""

    formats: dict[str, Format]
    logit_bounds: dict[str, LogitBound] = field(default_factory=dict)
    """Id of the q norm -> the bound at that attention."""
