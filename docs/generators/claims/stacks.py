"""The stacks that are tried, and plain autograd through them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from docs.generators.claims.claim import Case, measure_model
from normdiag.evidence.measurements import Measurements
from normdiag.evidence.stream import AddMeasurement
from sample_models.theory import Theory

CLASSES = 1000
LOSS = f"The loss is the cross-entropy of random targets among {CLASSES} classes"


def build_theory(
    case: Case,
    placement: str,
    layers: int,
    *,
    last_norm: bool = True,
    sequences: int = 2,
    width: int = 64,
) -> tuple[nn.Module, Tensor]:
    """The stack of theory, with or without the norm that the head reads through."""
    model, inputs = case.build(lambda: Theory(placement, width, layers), width, sequences)
    if not last_norm:
        model.norm, model.layers[-1].stream = nn.Identity(), nn.Identity()
    return model, inputs


def measure_adds(built: tuple[nn.Module, Tensor]) -> list[AddMeasurement]:
    """The adds of a stack, in order."""
    return list(measure_model(built, "stream-adds").stream.values())


@cache
def measure_theory(case: Case, placement: str, layers: int) -> Measurements:
    """The stream of the stack of theory."""
    return measure_model(build_theory(case, placement, layers), "stream-adds")


def theory_adds(case: Case, placement: str, layers: int) -> list[AddMeasurement]:
    """Its adds, in order."""
    return list(measure_theory(case, placement, layers).stream.values())


def energy_shares(adds: list[AddMeasurement]) -> list[float]:
    """||u||^2 of each write over the sum of all and of the start."""
    written = [add.rms.branch**2 for add in adds if add.rms]
    start = adds[0].rms.skip ** 2 if adds[0].rms else 0.0
    return [each / (start + sum(written)) for each in written]


@dataclass(frozen=True)
class Backward:
    """One backward pass."""

    sums: list[float]
    """||dL/dy|| of every add, RMS over tokens, in order."""
    layers: list[float]
    """The norm of the gradient of each layer's parameters."""
    head: float
    common: list[float]
    """The norm of the gradient's mean over the tokens of a sequence, RMS over sequences."""

    @property
    def blocks(self) -> float:
        """The norm of the gradient of all layers' parameters."""
        return sum(norm**2 for norm in self.layers) ** 0.5


def differentiate_stack(built: tuple[nn.Module, Tensor]) -> Backward:
    """Of a `Theory`: whatever enters the module `stream` of a layer is a sum."""
    model, inputs = built
    sums: list[Tensor] = []
    for layer in model.layers:
        layer.stream.register_forward_pre_hook(_retain_sum(sums))
    logits = model(inputs.clone().requires_grad_())
    targets = torch.arange(logits[..., 0].numel()) * 7919 % CLASSES
    F.cross_entropy(logits.flatten(0, 1), targets).backward()
    return Backward(
        [rms_norm(y.grad) for y in sums if y.grad is not None],
        [gradient_norm(layer) for layer in model.layers],
        gradient_norm(model.head),
        [rms_norm(y.grad.mean(-2)) for y in sums if y.grad is not None],
    )


def _retain_sum(sums: list[Tensor]) -> Callable[[nn.Module, tuple[Tensor, ...]], None]:
    def keep_gradient(module: nn.Module, args: tuple[Tensor, ...]) -> None:
        args[0].retain_grad()
        sums.append(args[0])

    return keep_gradient


def gradient_norm(module: nn.Module) -> float:
    """Over all parameters of a module."""
    grads = [p.grad.norm() for p in module.parameters() if p.grad is not None]
    return float(torch.stack(grads).norm())


def rms_norm(y: Tensor) -> float:
    """||y||, RMS over all but the features."""
    return float(y.norm(dim=-1).square().mean().sqrt())


def fit_slope(x: list[float], y: list[float]) -> float:
    """Of log y against log x, by least squares."""
    x_log, y_log = torch.tensor(x).double().log(), torch.tensor(y).double().log()
    centred = x_log - x_log.mean()
    return float((centred * y_log).sum() / centred.square().sum())
