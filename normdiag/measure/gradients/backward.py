"""The gradients of a short forward: which tokens, which loss, and why there may be none."""

from __future__ import annotations

from torch import nn

from normdiag.errors import RunError
from normdiag.evidence.coverage import SkippedMeasurement
from normdiag.evidence.gradients import Gradients
from normdiag.inputs.batch import Batch
from normdiag.inputs.truncation import truncate_batch
from normdiag.measure.gradients.gradients import compute_gradients
from normdiag.measure.gradients.loss import NoLossError, TriedTokens, choose_objective
from normdiag.measure.gradients.objectives import LossSettings
from normdiag.measure.settings import ForwardSettings

POSITIONS = 64
"""Tokens of the one sequence that is differentiated: autograd keeps every activation of it."""


def measure_gradients(
    model: nn.Module, batch: Batch, settings: ForwardSettings, tokens: TriedTokens | None = None
) -> Gradients | SkippedMeasurement:
    """Compute the gradients of a loss that fits the model, on the first tokens of `batch`.

    `tokens` keeps what the choice of the loss tried, for another on the same tokens. Where there is
    no such loss or the forward or backward fails, the reason is returned.
    """
    short = truncate_batch(batch, POSITIONS)
    try:
        try:
            return _differentiate(model, short, settings, tokens)
        except RunError:
            if short is batch:
                raise
            # a forward that needs its inputs whole
            return _differentiate(model, batch, settings, tokens)
    except NoLossError as error:
        why = str(error)
    except RunError as error:
        why = error.what
    except (RuntimeError, NotImplementedError) as error:  # an operation without a derivative
        line = next(iter(str(error).splitlines()), "")
        why = f"the backward pass raised {type(error).__name__}: {line}"
    return SkippedMeasurement(what="gradients", why=why)


def _differentiate(
    model: nn.Module, batch: Batch, settings: ForwardSettings, tokens: TriedTokens | None
) -> Gradients:
    loss_settings = LossSettings(settings.mask_token, settings.seed)
    objective = choose_objective(model, batch, loss_settings, tokens)
    return compute_gradients(model, objective, settings.clip)
