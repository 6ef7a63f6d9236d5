"""How the model is built, as its data flow shows: norms, residual adds, stacks."""

from __future__ import annotations

from typing import Literal

from normdiag.evidence.record import record

Placement = Literal[
    "pre",
    "post",
    "sandwich",
    "branch-output",
    "parallel-pre",
    "deepnorm",
    "normed-skip",
    "none",
    "hybrid",
    "other",
]
NormKind = Literal["layernorm", "rmsnorm", "groupnorm", "batchnorm", "l2norm", "dyt", "other"]
NormRole = Literal[
    "embedding",
    "final",
    "stream",
    "skip",
    "branch-output",
    "branch-input",
    "qk",
    "inner",
    "unattached",
]
ScaleKind = Literal["none", "constant", "learned"]
StreamReader = Literal["norm", "head", "stack", "caller"]
"""A norm; a weight contraction outside every stack; another stack (through whatever lies between);
nothing: the model returns it."""


@record
class Gain:
    """The effective gain gamma of a norm: what the normalised value is multiplied by.

    Gemma's `1 + w` is counted as it acts; a norm without a gain has none (null), not ones.
    """

    rms: float
    min_abs: float
    max_abs: float
    zeros: int
    nonfinite: int
    negatives: int = 0
    mean: float | None = None
    median_abs: float | None = None
    """Median of |gamma|: what `max_abs` and `min_abs` stand out from."""
    max_channel: int | None = None
    """Where |gamma| is largest."""
    dead: int = 0
    """How many are at most 1e-6 of the median |gamma| of those that are not zero; zeros too."""
    offset: float = 0.0
    """What the model adds to the stored vector to make gamma: 1 for `1 + w`."""


@record
class Norm:
    """One call of one norm."""

    id: str
    line: str | None
    """Source file and line that computes it."""
    axes: tuple[int, ...]
    """The axes that are reduced, counted from the end (-1 = last)."""
    kind: NormKind
    class_: str | None
    """The class name of the innermost running module: a label, never used to decide."""
    features: int
    """How many elements one statistic is taken over."""
    eps: float | None
    calls: int
    """How often that module ran in the forward."""
    role: NormRole
    gain: Gain | None
    bias_rms: float | None
    stack: str | None = None
    layer: int | None = None
    shape: tuple[int, ...] = ()
    """Of its input, in the first pass."""
    dtype: str | None = None
    """Of its input."""
    is_running: bool = False
    """It divides by stored running statistics: a fixed scale and shift."""


@record
class Scale:
    """A scale on the skip or on the branch: a scalar value, or rms, min and max of a vector."""

    kind: ScaleKind
    value: float | None = None
    rms: float | None = None
    min: float | None = None
    max: float | None = None


@record
class ResidualAdd:
    """One write-back to a stream: y = alpha x + beta (u_1 + .. + u_branches)."""

    id: str
    stack: str
    layer: int
    module: str
    line: str | None
    depth: int
    """Counts the adds of the stack from 0."""
    placement: Placement
    input_norms: tuple[str, ...]
    output_norms: tuple[str, ...]
    stream_norm: str | None
    """The norm that the sum goes through before it is the next skip operand."""
    skip_norm: str | None
    """The norm whose output the skip operand is."""
    inner_norms: tuple[str, ...]
    branches: int
    skip_scale: Scale
    branch_scale: Scale
    dtype: str | None = None
    """Of the sum."""


@record
class Stack:
    """One chain of residual adds of one width."""

    id: str
    placement: Placement
    norm_kind: NormKind | None
    layers: int
    norms_per_layer: int
    residual_adds_per_layer: int
    qk_norm: bool
    branch_scale: ScaleKind
    skip_scale: ScaleKind
    final_norm: str | None
    embedding_norm: str | None
    width: int
    drawing: str
    """One line such as `x + F(rms(x))`."""
    read_by: StreamReader | None = None
    """What reads the stream's last value; null where that is not known."""
    note: str | None = None
    """For `hybrid` and `other`: what was seen."""


@record
class Architecture:
    """Everything that was found, in the order of the forward."""

    stacks: tuple[Stack, ...] = ()
    norms: tuple[Norm, ...] = ()
    residual_adds: tuple[ResidualAdd, ...] = ()

    def adds_of_stack(self, stack_id: str) -> tuple[ResidualAdd, ...]:
        """The residual adds of one stack, in the order of the forward."""
        return tuple(add for add in self.residual_adds if add.stack == stack_id)

    def norms_of_stack(self, stack_id: str) -> tuple[Norm, ...]:
        """The norms of one stack, in the order of the forward."""
        return tuple(norm for norm in self.norms if norm.stack == stack_id)


def layer_id(stack_id: str, layer: int) -> str:
    """The id of one run of a stack's repeated layer, such as "model.layers/layer#3"."""
    return f"{stack_id}/layer#{layer}"
