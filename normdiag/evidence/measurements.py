"""All measurements by site id. Quantities that were not measured are missing or null."""

from __future__ import annotations

from dataclasses import field

from normdiag.evidence.attention_logits import AttentionLogits
from normdiag.evidence.blocks import BlockJacobian
from normdiag.evidence.branch_weights import BranchWeights
from normdiag.evidence.gradients import Gradients
from normdiag.evidence.invariances import Invariances
from normdiag.evidence.layers import LayerMeasurement
from normdiag.evidence.near_norms import NearNorm
from normdiag.evidence.nonfinite import FirstNonFinite
from normdiag.evidence.norm_inputs import NormMeasurement
from normdiag.evidence.norm_speed import NormSpeed
from normdiag.evidence.norm_swap import NormSwap
from normdiag.evidence.precision import Precision
from normdiag.evidence.record import record
from normdiag.evidence.replay import Replay
from normdiag.evidence.stream import AddMeasurement, Closure, Growth, HeadInput
from normdiag.evidence.weights import StaticPass, TensorFingerprint


@record
class Measurements:
    """Keys are ids of norms, adds and stacks of the architecture."""

    norms: dict[str, NormMeasurement] = field(default_factory=dict)
    near_norms: dict[str, NearNorm] = field(default_factory=dict)
    """Of the norms of kind "other"."""
    stream: dict[str, AddMeasurement] = field(default_factory=dict)
    layers: dict[str, LayerMeasurement] = field(default_factory=dict)
    """By "<stack>/layer#k"."""
    duplicates: dict[str, tuple[tuple[int, ...], ...]] = field(default_factory=dict)
    """Stack id -> groups of layers, modules of their own, whose parameters are all equal; stacks
    without layers to compare are left out."""
    branch_weights: dict[str, BranchWeights] = field(default_factory=dict)
    growth: dict[str, Growth] = field(default_factory=dict)
    closure: dict[str, Closure] = field(default_factory=dict)
    replay: dict[str, Replay] = field(default_factory=dict)
    blocks: dict[str, BlockJacobian] = field(default_factory=dict)
    """Id of an add, "<stack>/layer#k", or id of a stack."""
    gradients: Gradients | None = None
    precision: Precision | None = None
    attention_logits: dict[str, AttentionLogits] = field(default_factory=dict)
    """By the module that computes the attention, with "#k" where it computes several."""
    invariances: Invariances | None = None
    norm_swap: NormSwap | None = None
    norm_speed: tuple[NormSpeed, ...] = ()
    """By shape, dtype and form. Times: no two runs agree."""
    head_input: HeadInput | None = None
    outputs: dict[str, tuple[TensorFingerprint, ...]] = field(default_factory=dict)
    """Name of an output of the model -> sums of its rows without padding, one entry per forward in
    the order of the inputs; outputs with values that are not finite are left out."""
    first_nonfinite: FirstNonFinite | None = None
    weights: StaticPass | None = None
