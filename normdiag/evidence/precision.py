"""Effects of number formats: overflow, absorbed updates, underflow of epsilon."""

from __future__ import annotations

from dataclasses import field
from typing import Literal

from normdiag.evidence.record import record
from normdiag.evidence.statistics import MedianMax


@record
class Remedy:
    """A rescaling that makes the stream of one stack fit into a format."""

    layer: int
    """The first layer whose stream overflows; from here on it must stay in float32."""
    factor: float | None
    """The power of two by which all that is written to the stream is to be multiplied, so that
    twice the largest value fits. Null where a branch or a reader takes the stream without a norm,
    which the factor would change, and where the run itself has overflowed."""
    eps_share: MedianMax | None
    """The largest eps_share of the norms that read the stream, after applying `factor`."""


@record
class FormatHeadroom:
    """The headroom of one number format for all measured values."""

    largest: float
    """The largest finite value of the format."""
    headroom: float | None
    """largest / max |value|; below 1 the format overflows, 0: the run itself overflowed."""
    headroom_site: str | None
    """The site with the smallest headroom."""
    square_headroom: float | None
    """largest / max x^2 of norms; `square_formats` states which norms square in which format."""
    square_headroom_site: str | None
    absorbed_updates: dict[str, float]
    """Add id -> share of the non-zero elements of u with x + u = x. Over all tokens in the format
    of the run, over the sampled ones in others."""
    absorbed_sample: int | None = None
    """Number of sampled tokens that `absorbed_updates` are over; null where all are counted."""
    underflowing_epsilons: tuple[str, ...] = ()
    """Norms whose epsilon rounds to 0."""
    overflowing_gains: tuple[str, ...] = ()
    """Norms whose gain overflows when it is cast."""
    remedies: dict[str, Remedy] = field(default_factory=dict)
    """Stack id -> remedy, for stacks whose stream does not fit."""


@record
class LogitBound:
    """|q . k| * scale <= bound, since normalised q and k have norms of at most max|gain|
    sqrt(d)."""

    bound: float
    k_norm: str
    scale: float
    max_observed: float | None
    """`max_abs` of that attention in `measurements.attention_logits`; null where it has none."""


PeakKind = Literal["product", "contraction"]


@record
class InnerPeak:
    """The largest |value| of one operation inside a branch, over all tokens."""

    id: str
    """"<module>/<kind>#<number>"."""
    module: str
    kind: PeakKind
    """A product of two activations, or a contraction: with weights, or of tokens with tokens."""
    number: int
    """Among the operations of that kind in the module, in the order of the forward."""
    add: str
    """Id of the residual add whose branch it is on, the innermost where branches nest."""
    value: float
    dtype: str
    """The format of the run."""


@record
class Precision:
    """Per format ("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")."""

    formats: dict[str, FormatHeadroom]
    max_abs: dict[str, float] = field(default_factory=dict)
    """Site id -> the largest |value| there: adds (x, u and y), norm inputs, and of every branch
    the largest product of two activations ("<module>/product#k") and the largest result of a
    contraction ("<module>/contraction#k")."""
    max_square: dict[str, float] = field(default_factory=dict)
    """Norm id -> the largest square in it, for norms that are written out; fused ones sum squares
    in float32 and hold none."""
    square_formats: dict[str, str] = field(default_factory=dict)
    """Norm id -> the format in which this run took those squares."""
    logit_bounds: dict[str, LogitBound] = field(default_factory=dict)
    """Id of the q norm -> the bound on the logits of that attention."""
    inner_peaks: tuple[InnerPeak, ...] = ()
    """The largest product and the largest contraction of every branch."""
