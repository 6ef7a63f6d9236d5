"""Gradients as anyone would take them: hooks on norm modules, retain_grad, float64."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn

Loss = Callable[[Any], torch.Tensor]


class Plain:
    """One backward pass; `stream` holds the gradients of what each of `norms` was given."""

    def __init__(
        self, model: nn.Module, inputs: dict, norms: Iterable[nn.Module], loss: Loss
    ) -> None:
        seen: list[torch.Tensor] = []

        def keep(module: nn.Module, args: tuple[torch.Tensor, ...]) -> None:
            args[0].retain_grad()
            seen.append(args[0])

        handles = [norm.register_forward_pre_hook(keep) for norm in norms]
        model.zero_grad()
        value = loss(model(**inputs))
        value.backward()
        self.loss = float(value.detach())
        for handle in handles:
            handle.remove()
        self.stream = [t.grad for t in seen]
        given = {n: p for n, p in model.named_parameters() if p.grad is not None}
        self.parameters = {n: p.grad.clone() for n, p in given.items()}
        self.global_norm = float(nn.utils.clip_grad_norm_(given.values(), 1.0))
        largest = max(given, key=lambda n: float(self.parameters[n].norm()))
        self.clip_factor = float(given[largest].grad.norm() / self.parameters[largest].norm())
        model.zero_grad()

    def share(self, group: str) -> float:
        """Of the squared norm."""
        squares = {n: float(g.double().square().sum()) for n, g in self.parameters.items()}
        own = [s for n, s in squares.items() if n == group or n.startswith(f"{group}.")]
        return sum(own) / sum(squares.values())

    def norm(self, name: str) -> float:
        """||dL/dp||."""
        return float(self.parameters[name].double().norm())


def rms(gradient: torch.Tensor, real: torch.Tensor | None = None) -> float:
    """Root of the mean over real tokens of the squared length."""
    squares = gradient.double().square().sum(-1)
    return float((squares if real is None else squares[real]).mean().sqrt())
