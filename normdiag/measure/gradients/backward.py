"""The gradient part of a run: which tokens, which loss, and why there may be none."""

from __future__ import annotations

from normdiag.errors import RunError
from normdiag.evidence.coverage import Skipped
from normdiag.evidence.gradients import Gradients
from normdiag.inputs.batch import Batch
from normdiag.inputs.requirements import setting
from normdiag.inputs.truncation import shortened
from normdiag.loading.interface import Runnable
from normdiag.measure.gradients.gradients import gradients
from normdiag.measure.gradients.loss import NoLossError, choose
from normdiag.measure.gradients.objectives import Choice
from normdiag.options import Options

POSITIONS = 64
"""Tokens of the one sequence that is differentiated: autograd keeps every activation of it."""


def flow_back(loaded: Runnable, batch: Batch, options: Options) -> Gradients | Skipped:
    """The gradients of a loss that fits the model, on the first tokens of `batch`; or why not."""
    short = shortened(batch, POSITIONS)
    try:
        try:
            return _flow_back(loaded, short, options)
        except RunError:
            if short is batch:
                raise
            return _flow_back(loaded, batch, options)  # a forward that needs its inputs whole
    except NoLossError as error:
        why = str(error)
    except RunError as error:
        why = error.what
    except (RuntimeError, NotImplementedError) as error:  # an operation without a derivative
        first = next(iter(str(error).splitlines()), "")
        why = f"the backward pass raised {type(error).__name__}: {first}"
    return Skipped(what="gradients", why=why)


def _flow_back(loaded: Runnable, batch: Batch, options: Options) -> Gradients:
    objective = choose(loaded.model, batch, Choice(_mask_id(loaded), options.seed))
    return gradients(loaded.model, objective, options.clip)


def _mask_id(loaded: Runnable) -> int | None:
    """The token that the tokenizer, or the configuration, has for a masked one."""
    known = getattr(loaded.tokenizer, "mask_token_id", None)
    mask = setting(loaded.config, "mask_token_id") if known is None else known
    return mask if isinstance(mask, int) else None
