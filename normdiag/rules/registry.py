"""All rules in the order of their codes, and how to select them."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from normdiag.errors import UsageError
from normdiag.rules.coverage.defaulted_setting import DefaultedSetting
from normdiag.rules.coverage.incomplete_trace import IncompleteTrace
from normdiag.rules.coverage.replay_mismatch import ReplayMismatch
from normdiag.rules.coverage.unused_module import UnusedModuleRule
from normdiag.rules.coverage.weights_not_loaded import WeightsNotLoaded
from normdiag.rules.gradient.clip_dominated import ClipDominated
from normdiag.rules.gradient.exploding_gradient import ExplodingGradient
from normdiag.rules.gradient.vanishing_gradient import VanishingGradient
from normdiag.rules.jacobian.amplifying_norm import AmplifyingNorm
from normdiag.rules.jacobian.attention_logit_bound import AttentionLogitBound
from normdiag.rules.jacobian.ill_conditioned_block import IllConditionedBlock
from normdiag.rules.jacobian.ill_conditioned_norm import IllConditionedNorm
from normdiag.rules.norm_inputs.constant_input import ConstantInput
from normdiag.rules.norm_inputs.epsilon_dominates import EpsilonDominates
from normdiag.rules.norm_inputs.massive_activation import MassiveActivation
from normdiag.rules.norm_inputs.mean_dominated_input import MeanDominatedInput
from normdiag.rules.norm_inputs.outlier_channel import OutlierChannel
from normdiag.rules.parameters.dead_gain import DeadGain
from normdiag.rules.parameters.epsilon_mismatch import EpsilonMismatch
from normdiag.rules.parameters.gain_level import GainLevel
from normdiag.rules.parameters.gain_offset import GainOffset
from normdiag.rules.parameters.gain_outlier import GainOutlier
from normdiag.rules.parameters.non_finite_parameter import NonFiniteParameter
from normdiag.rules.parameters.unit_gain import UnitGain
from normdiag.rules.placement.batch_coupled_norm import BatchCoupledNorm
from normdiag.rules.placement.deep_post_norm import DeepPostNorm
from normdiag.rules.placement.double_final_norm import DoubleFinalNorm
from normdiag.rules.placement.missing_final_norm import MissingFinalNorm
from normdiag.rules.placement.missing_residual import MissingResidual
from normdiag.rules.placement.mixed_placement import MixedPlacement
from normdiag.rules.placement.narrow_norm import NarrowNorm
from normdiag.rules.placement.near_norm import NearNorm
from normdiag.rules.placement.raw_branch_input import RawBranchInput
from normdiag.rules.placement.unexpected_axis import UnexpectedAxis
from normdiag.rules.precision.absorbed_update import AbsorbedUpdate
from normdiag.rules.precision.epsilon_underflow import EpsilonUnderflow
from normdiag.rules.precision.non_finite_activation import NonFiniteActivation
from normdiag.rules.precision.overflow_risk import OverflowRisk
from normdiag.rules.precision.promoted_stream import PromotedStream
from normdiag.rules.precision.square_overflow import SquareOverflow
from normdiag.rules.rule import Rule
from normdiag.rules.stream.cancelling_add import CancellingAdd
from normdiag.rules.stream.duplicate_layer import DuplicateLayer
from normdiag.rules.stream.geometric_growth import GeometricGrowth
from normdiag.rules.stream.overwriting_branch import OverwritingBranch
from normdiag.rules.stream.silent_branch import SilentBranch
from normdiag.rules.stream.token_collapse import TokenCollapse

RULES: tuple[Rule, ...] = (
    IncompleteTrace(),
    ReplayMismatch(),
    WeightsNotLoaded(),
    DefaultedSetting(),
    UnusedModuleRule(),
    DeepPostNorm(),
    MissingFinalNorm(),
    DoubleFinalNorm(),
    MixedPlacement(),
    BatchCoupledNorm(),
    NarrowNorm(),
    UnexpectedAxis(),
    NearNorm(),
    MissingResidual(),
    RawBranchInput(),
    DeadGain(),
    GainOutlier(),
    NonFiniteParameter(),
    GainOffset(),
    EpsilonMismatch(),
    GainLevel(),
    UnitGain(),
    EpsilonDominates(),
    ConstantInput(),
    MeanDominatedInput(),
    MassiveActivation(),
    OutlierChannel(),
    GeometricGrowth(),
    SilentBranch(),
    OverwritingBranch(),
    CancellingAdd(),
    TokenCollapse(),
    DuplicateLayer(),
    IllConditionedNorm(),
    AmplifyingNorm(),
    IllConditionedBlock(),
    AttentionLogitBound(),
    VanishingGradient(),
    ExplodingGradient(),
    ClipDominated(),
    OverflowRisk(),
    SquareOverflow(),
    AbsorbedUpdate(),
    EpsilonUnderflow(),
    NonFiniteActivation(),
    PromotedStream(),
)

FAMILIES = {
    "ND0": "coverage",
    "ND1": "placement",
    "ND2": "parameters",
    "ND3": "norm_inputs",
    "ND4": "stream",
    "ND5": "jacobian",
    "ND6": "gradient",
    "ND7": "precision",
}
"""Prefix of a code -> folder of its rules."""


def find_rule(selector: str) -> Rule:
    """Return the rule with this code or name. Raises UsageError, naming similar ones."""
    for rule in RULES:
        if selector.upper() == rule.code or selector.lower() == rule.name:
            return rule
    raise _unknown_rule_error(selector)


def select_rules(select: Iterable[str] = (), ignore: Iterable[str] = ()) -> tuple[Rule, ...]:
    """Return the rules named by `select` (all where it is empty) without those named by `ignore`.

    A selector is a code, a name, or a prefix of codes: "ND301", "epsilon-dominates", "ND3". Raises
    UsageError for a selector without a match, since a misspelt rule would disable a gate.
    """
    wanted = {rule.code for selector in select for rule in match_rules(selector)}
    unwanted = {rule.code for selector in ignore for rule in match_rules(selector)}
    return tuple(
        rule for rule in RULES if (rule.code in wanted or not wanted) and rule.code not in unwanted
    )


def match_rules(selector: str) -> tuple[Rule, ...]:
    """Return the rules that `selector` names, at least one. Raises UsageError."""
    upper = selector.upper()
    by_code = tuple(
        rule for rule in RULES if upper.startswith("ND") and rule.code.startswith(upper)
    )
    return by_code or (find_rule(selector),)


def _unknown_rule_error(selector: str) -> UsageError:
    names, codes = [rule.name for rule in RULES], [rule.code for rule in RULES]
    near = get_close_matches(selector.lower(), names) + get_close_matches(selector.upper(), codes)
    # Match single words of a name as well ("growth").
    words = {word for name in names for word in name.split("-")}
    close = set(get_close_matches(selector.lower(), words, cutoff=0.75))
    near += [name for name in names if close & set(name.split("-"))]
    meant = f"did you mean {', '.join(dict.fromkeys(near))}? " if near else ""
    return UsageError(
        f"no rule is called {selector!r}",
        f"{meant}`normdiag rules` lists them; ND3 names a family, ND301 one rule",
    )
