"""ND602 exploding-gradient."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from normdiag.evidence.architecture import ResidualAdd, Stack
from normdiag.evidence.evidence import Evidence
from normdiag.evidence.gradients import Gradients, GradientTrend
from normdiag.findings import Finding
from normdiag.number_text import format_count, format_number, format_setting
from normdiag.rules.rule import Rule
from normdiag.rules.stream_leaps import describe_multipliers
from normdiag.rules.thresholds import Limits, Threshold
from normdiag.rules.typical_growth import is_normless, typical_growth

_SHARE = 0.5
"""One add with more than this share of the logarithm of the total is a step, no rate."""
_FEWEST_ADDS = 5


@dataclass(frozen=True, slots=True)
class _Step:
    """The add across which the gradient changes most."""

    add: ResidualAdd
    factor: float
    total: float


class ExplodingGradient(Rule):
    """The gradient norm grows geometrically from the last layer to the first.

    ## What it does

    Reports stacks in which ||dL/dy|| grows by a constant factor per layer from the last residual
    add to the first, with a large total factor, and stacks where it is not finite although the loss
    is.

    ## Why it matters

    The first layers then determine the global norm and with it the clipping of all other layers; a
    learning rate that suits the last layers is too large for the first. A stream that grows
    geometrically has such a gradient: each branch amplifies its input and its gradient alike.

    ## How it is measured

    One backward pass of the loss that the report names. Per residual add y = x + u, the root of the
    mean over tokens of ||dL/dy||^2, before any norm. A straight line is fitted to its logarithm
    against depth. The finding needs a factor per layer above the threshold by twice its standard
    error (a single jump, as at the first add of many models, is not a rate per layer) and a total
    along the line above the other threshold. Where one add has more than half of the logarithm of
    the total, the finding names that add instead of a rate.

    ## Thresholds

    ## Example

    48 blocks of x + fc(x) without any norm; the same with a norm in each branch.

    ## How to fix

    Normalise the branch input, so that its derivative falls as the stream grows; initialise the
    last weights of each branch smaller by 1/sqrt(2L); look for a missing branch scale. If only the
    range of a low-precision format is exceeded, scale the loss, or run in bfloat16.

    ## When it is wrong

    In a pre-norm model the gradient grows towards the first layer as 1/||x||: by 4 to 10 over
    twelve layers at initialisation, by 14 over the thirty layers of SmolLM2, by 89 over the
    eighteen of Gemma 3 270M, whose stream grows 295 times. That is not a defect: up to
    thirty times the growth of the stream, such a gradient is info.

    ## References

    * Xiong et al., On Layer Normalization in the Transformer Architecture, ICML 2020
      (arXiv 2002.04745).
    * Zhang, Dauphin and Ma, Fixup Initialization: Residual Learning Without Normalization, ICLR
      2019 (arXiv 1901.09321).
    """

    code = "ND602"
    name = "exploding-gradient"
    since = "0.1"
    requirements = ("architecture.stacks", "measurements.gradients")
    thresholds = (
        Threshold(
            name="rate",
            unit="factor per layer",
            default=1.12,
            meaning="a growth per layer above this by twice its standard error is reported",
            source="a stack without norms at PyTorch's default weights, of variance 1/(3H): "
            "sqrt(1 + 1/3) = 1.155 per add",
            low=1.0,
        ),
        Threshold(
            name="total",
            unit="first add / last add",
            default=100,
            meaning="smallest total growth along the fitted line that is reported",
            source="pre-norm at initialisation: sqrt(q_L / q_1) of the stream, 4 (Llama) to 11 "
            "(OLMo 2) over twelve layers",
            low=1.0,
        ),
        Threshold(
            name="unexplained",
            unit="total / growth of the stream",
            default=30,
            meaning="a total this many times the growth of the stream is a warning, less is info",
            source="our choice (2026), above trained models; behind a norm of its input a branch "
            "passes its gradient as 1/||x|| (Xiong et al. 2020, lemma 3)",
            low=0.0,
        ),
    )
    fires_on = "sample_models/no_norm.py:build"
    silent_on = "sample_models/pre_norm.py:build"

    def check(self, evidence: Evidence, limits: Limits) -> Iterator[Finding]:
        """One finding per stack."""
        gradients = evidence.measurements.gradients
        if gradients is None:
            return
        for stack in evidence.architecture.stacks:
            trend = gradients.trends.get(stack.id)
            lost = self._count_non_finite(evidence, gradients, stack)
            if lost and math.isfinite(gradients.loss.value):
                yield self._non_finite_finding(stack, lost, limits)
            elif trend is not None and 1 / trend.total > limits["total"]:
                error = trend.rate_error or 0.0
                if 1 / (trend.rate + 2 * error) > limits["rate"]:
                    step = _find_single_step(evidence, gradients, stack)
                    growth = _explaining_growth(evidence, stack)
                    if step is None:
                        yield self._growing_finding(stack, trend, growth, limits)
                    elif step.total > limits["total"]:
                        yield self._step_finding(stack, step, limits)

    def _count_non_finite(self, evidence: Evidence, gradients: Gradients, stack: Stack) -> int:
        adds = evidence.architecture.adds_of_stack(stack.id)
        return sum(not math.isfinite(gradients.stream.get(add.id, 0.0)) for add in adds)

    def _growing_finding(
        self, stack: Stack, trend: GradientTrend, growth: float, limits: Limits
    ) -> Finding:
        unexplained = 1 / trend.total / growth
        is_explained = unexplained <= limits["unexplained"]
        beside = (
            f"; {format_number(unexplained)} times the growth of ||y||, {format_number(growth)} "
            f"(threshold {format_setting(limits['unexplained'])})"
            if growth > 1
            else ""
        )
        return self.finding(
            f"||dL/dy|| in {stack.title} grows by a factor of {format_number(1 / trend.rate)} per "
            f"layer "
            f"from the last layer to the first (threshold {format_setting(limits['rate'])}), "
            f"{format_number(1 / trend.total)} in total over {stack.layers} layers (threshold "
            f"{format_setting(limits['total'])}){beside}",
            ids=(stack.id,),
            severity="info" if is_explained else "warning",
            confidence="medium" if trend.rate_error is None else "high",
            measured=(1 / trend.rate, limits["rate"]),
            advice="expected behind norms, whose gradient goes as 1/||x||"
            if is_explained and growth > 1
            else "normalise the branch input, or initialise the last weights of each branch "
            "smaller by 1/sqrt(2L); look for a missing branch scale",
        )

    def _step_finding(self, stack: Stack, step: _Step, limits: Limits) -> Finding:
        return self.finding(
            f"||dL/dy|| in {stack.title} is {format_number(step.factor)} times as large before "
            f"{step.add.id} as behind it, {format_number(step.total)} times at the first add as at "
            f"the last (threshold {format_setting(limits['total'])}): one step, no rate per layer"
            f"{describe_multipliers(step.add)}",
            ids=(step.add.id,),
            severity="warning",
            confidence="high",
            measured=(step.total, limits["total"]),
            advice=f"look at what scales the branch of {step.add.id}",
        )

    def _non_finite_finding(self, stack: Stack, lost: int, limits: Limits) -> Finding:
        return self.finding(
            f"||dL/dy|| is not finite at {format_count(lost, 'add')} of "
            f"{stack.title}, but the loss "
            f"is",
            ids=(stack.id,),
            severity="error",
            confidence="high",
            measured=(math.inf, limits["rate"]),
            advice="scale the loss down, or run the backward pass in bfloat16 or float32; a square "
            "root or a norm of exactly 0 has no finite derivative: add an epsilon",
        )


def _explaining_growth(evidence: Evidence, stack: Stack) -> float:
    """How much of the gradient's growth that of the stream explains; 1 without norms."""
    growth = typical_growth(evidence, stack)
    return 1.0 if growth is None or is_normless(stack) else max(growth, 1.0)


def _find_single_step(evidence: Evidence, gradients: Gradients, stack: Stack) -> _Step | None:
    """The add across which most of the growth happens; None where it is spread or too small."""
    adds = [a for a in evidence.architecture.adds_of_stack(stack.id) if a.id in gradients.stream]
    norms = [gradients.stream[add.id] for add in adds]
    if len(norms) < _FEWEST_ADDS or min(norms) <= 0 or norms[0] <= norms[-1]:
        return None
    total = norms[0] / norms[-1]
    factors = [before / behind for before, behind in pairwise(norms)]
    largest = max(factors)
    if math.log(largest) <= _SHARE * math.log(total):
        return None
    return _Step(adds[factors.index(largest) + 1], largest, total)
