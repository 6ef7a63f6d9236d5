"""The structure of a model, detected from its data flow: norms, residual adds, stacks."""

from __future__ import annotations

from typing import Literal

from normdiag.evidence.epsilon_forms import EpsForm
from normdiag.evidence.gains import Gain
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
AddPlace = Literal["before", "between", "behind"]
"""The place of an add outside the layers: ahead of all, between two, or behind the last."""
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
StreamReader = Literal["norm", "head", "stack", "residual-add", "caller"]
"""The reader of a stream's last value: a norm, a weight contraction outside every stack, another
stack, an add that belongs to no stack, or the caller."""


@record
class Norm:
    """One call of one norm."""

    id: str
    line: str | None
    """Source file and line."""
    axes: tuple[int, ...]
    """The axes that are reduced, counted from the end (-1 = last)."""
    kind: NormKind
    class_: str | None
    """The class name of the innermost running module, a label only."""
    features: int
    """Number of elements of one statistic."""
    eps: float | None
    calls: int
    """Number of calls of the module in the forward."""
    role: NormRole
    gain: Gain | None
    bias_rms: float | None
    stack: str | None = None
    layer: int | None = None
    shape: tuple[int, ...] = ()
    """Shape of its input in the first pass."""
    dtype: str | None = None
    """Dtype of its input."""
    eps_dtype: str | None = None
    """Dtype in which epsilon is added in a norm that is written out; null for one fused operation,
    which computes in at least float32 in PyTorch."""
    is_running: bool = False
    """Whether it divides by stored running statistics (a fixed scale and shift)."""
    eps_form: EpsForm = "in-root"
    """Where epsilon stands: sqrt(v + eps) "in-root", sqrt(v) + eps "on-root", sqrt(max(v, eps))
    "floor-in-root", max(sqrt(v), eps) "floor-of-root". In a root it has the unit of v, else that of
    x."""
    variance_scale: float = 1.0
    """c of v = c m2, with m2 the mean square of the (centred) input: 1, H / (H - 1) for the
    unbiased variance, H for a sum of squares (an l2 norm)."""
    statistic_gain: float = 1.0
    """f / sqrt(c): the rms of the normalised value without epsilon. 1 for LayerNorm and RMSNorm,
    sqrt((H - 1) / H) with the unbiased variance, 1 / sqrt(H) for a vector of length 1."""
    scaling: str | None = None
    """Of kind "other": what x is divided or multiplied by, such as "divided by its variance"."""
    is_centred: bool | None = None
    """Of kind "other": whether the mean is subtracted from x."""


@record
class Scale:
    """A scale on the skip or on the branch: a scalar value, or rms, min and max of a vector."""

    kind: ScaleKind
    value: float | None = None
    rms: float | None = None
    min: float | None = None
    max: float | None = None


@record
class Multiplier:
    """A parameter or buffer that multiplies a branch: one number, or one per feature."""

    name: str
    value: float
    """The number, or the root mean square of a vector."""


@record
class StreamWeights:
    """One weight per stream: of the sum of streams that a branch reads, or of its output."""

    kind: Literal["constant", "learned", "data"]
    """"data": computed from the inputs, for every token."""
    values: tuple[float, ...] | None = None
    """In the order of the streams; null for "data", and where a value is not known."""


@record
class ResidualAdd:
    """One write-back to a stream: y = alpha x + beta (u_1 + .. + u_branches)."""

    id: str
    stack: str
    layer: int
    module: str
    line: str | None
    depth: int
    """Index of the add within the stack, from 0."""
    placement: Placement
    input_norms: tuple[str, ...]
    output_norms: tuple[str, ...]
    stream_norm: str | None
    """The norm on the sum before it becomes the next skip operand."""
    skip_norm: str | None
    """The norm whose output is the skip operand."""
    inner_norms: tuple[str, ...]
    branches: int
    skip_scale: Scale
    branch_scale: Scale
    dtype: str | None = None
    """Of the sum."""
    multipliers: tuple[Multiplier, ...] = ()
    """Stored tensors that multiply the branch somewhere, apart from the gains of its norms."""
    is_projected: bool = False
    """Whether the skip is transformed, P(x), by linear weights or by pooling."""
    is_gated: bool = False
    """Whether the skip is multiplied by a gate computed from data, g x."""
    raw_readers: tuple[str, ...] = ()
    """Modules on a branch with input norms whose weights read x itself, past these norms."""
    read_weights: StreamWeights | None = None
    """Of the streams in the sum that the branch reads; null with one stream, or where it reads no
    sum or several."""
    write_weights: StreamWeights | None = None
    """Of the branch's output in each stream, times the scalars on the branch; null with one
    stream."""


@record
class SingleAdd:
    """A residual add on a stream outside its layers, such as a convolutional position encoding.

    It is named and not measured.
    """

    id: str
    module: str
    line: str | None
    place: AddPlace
    layer: int | None = None
    """The last layer before it; null ahead of all."""


def title_stack(id: str) -> str:
    """Return the id; that of a stack at the root of the module tree is empty."""
    return id or "the model (root)"


@record
class PlacementException:
    """A residual add whose placement is not that of its stack."""

    layer: int
    add: str
    placement: Placement


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
    """The reader of the stream's last value; null where unknown."""
    note: str | None = None
    """For `hybrid` and `other`: a description of the structure."""
    single_adds: tuple[SingleAdd, ...] = ()
    """The adds on the stream that belong to no layer, in the order of the forward."""
    exceptions: tuple[PlacementException, ...] = ()
    """The adds whose placement differs from that of at least three quarters of the stack's adds,
    which is the stack's; where no placement has so many, it is `hybrid`."""
    streams: int = 1
    """Number of streams that its value holds beside each other (hyper-connections): branches read a
    weighted sum of them and write to each."""
    layer_modules: int | None = None
    """Number of modules that compute the layers: fewer than `layers` where one runs several times
    and so its parameters are shared; null where layers are no modules."""

    @property
    def title(self) -> str:
        """The id in words."""
        return title_stack(self.id)


@record
class StreamBreak:
    """A branch that is not added to the stream: its output takes the place of the stream."""

    first_module: str
    """The module that computes the first contraction of the branch."""
    last_module: str
    """The module that computes the last one."""
    stack: str | None
    """The stack behind it, or the one before it; null in a model without residual adds."""
    is_doubled: bool = False
    """Whether its output is then added to itself, x + x."""
    is_first: bool = False
    """Whether it begins the stream: it stands before the first add of a stack whose other layers
    add this branch."""
    contractions: int | None = None
    """How many products with weights or between values it has."""


@record
class Doubling:
    """An addition of the stream to itself, x + x."""

    module: str
    line: str | None
    stack: str | None = None
    """The stack on whose skip path it stands."""


@record
class Architecture:
    """The detected structure, in the order of the forward."""

    stacks: tuple[Stack, ...] = ()
    norms: tuple[Norm, ...] = ()
    residual_adds: tuple[ResidualAdd, ...] = ()
    breaks: tuple[StreamBreak, ...] = ()
    doublings: tuple[Doubling, ...] = ()

    def adds_of_stack(self, stack_id: str) -> tuple[ResidualAdd, ...]:
        """The residual adds of one stack, in the order of the forward."""
        return tuple(add for add in self.residual_adds if add.stack == stack_id)

    def norms_of_stack(self, stack_id: str) -> tuple[Norm, ...]:
        """The norms of one stack, in the order of the forward."""
        return tuple(norm for norm in self.norms if norm.stack == stack_id)


def layer_id(stack_id: str, layer: int) -> str:
    """The id of one run of a stack's repeated layer, such as "model.layers/layer#3"."""
    return f"{stack_id}/layer#{layer}"


def find_layer_stack(id: str) -> str | None:
    """The id of the stack of such an id; None for another id."""
    stack_id, mark, layer = id.rpartition("/layer#")
    return stack_id if mark and layer.isdecimal() else None
