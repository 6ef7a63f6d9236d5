"""A norm as an operation that can be run again: its own module, or the norm as detected."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import nn

from normdiag.capture.scopes import plain_path
from normdiag.errors import RunError
from normdiag.inputs.batch import Batch
from normdiag.measure.passes.learned_values import LearnedValues
from normdiag.measure.passes.model_call import call_model, quiet_model
from normdiag.measure.sites.replay import apply_norm
from normdiag.measure.sites.samples import NormSample
from normdiag.structure.algebraic_forms import DetectedNorm, norm_parameter_names

Operation = Callable[[torch.Tensor], torch.Tensor]


@dataclass(frozen=True, slots=True)
class NormOperation:
    """A norm in both modes, in float64, with an input that the model gave it."""

    by: Literal["module", "formula"]
    x: torch.Tensor
    """(1, ..): of one sequence."""
    positions: int | None
    """The axis of x that runs over tokens."""
    train: Operation
    evaluate: Operation


def operation_from_module(module: nn.Module, norm: DetectedNorm, x: torch.Tensor) -> NormOperation:
    """By copies of the module, one in each mode."""
    x = x.detach()[:1].double()
    modes = [deepcopy(module).double().train(mode) for mode in (True, False)]
    return NormOperation("module", x, _token_axis(norm, x), *map(_without_gradients, modes))


def operation_from_formula(
    norm: DetectedNorm, sample: NormSample, learned: LearnedValues
) -> NormOperation | None:
    """By replay, on the sampled rows as one sequence; None where a row is not all that it needs."""
    if norm.kind in ("batchnorm", "groupnorm") or not sample.input_rows.shape[0]:
        return None
    x = sample.input_rows.double()[None]

    def apply_operation(rows: torch.Tensor) -> torch.Tensor:
        flat = apply_norm(norm, rows.reshape(-1, rows.shape[-1]), learned)
        if flat is None:
            raise ValueError(f"{norm.kind} cannot be replayed")
        return flat.reshape(rows.shape)

    if apply_norm(norm, x[0], learned) is None:
        return None
    return NormOperation("formula", x, 1, apply_operation, apply_operation)


def find_norm_module(model: nn.Module, norm: DetectedNorm) -> nn.Module | None:
    """The module that is this norm and nothing else: no children, no parameters but its own.

    A scripted module takes no hooks, so its inputs are not known.
    """
    path = norm.node.frame.path
    module = {plain_path(name): module for name, module in model.named_modules()}.get(path)
    if module is None or not path or any(True for _ in module.children()):
        return None
    if isinstance(module, torch.jit.ScriptModule):
        return None
    own = norm_parameter_names([norm])
    names = {plain_path(f"{path}.{name}") for name, _ in module.named_parameters()}
    is_whole = names <= own and not any(p.is_meta for p in module.parameters())
    return module if is_whole else None


def capture_inputs(
    model: nn.Module, batch: Batch, modules: Mapping[str, nn.Module]
) -> dict[str, torch.Tensor]:
    """Capture the first input of each module that runs.

    The forward goes no further than all of them have run, and may not get there.
    """
    inputs: dict[str, torch.Tensor] = {}
    stopped = suppress(_StopForward, RunError)
    with quiet_model(model), torch.no_grad(), _capture_hooks(modules, inputs), stopped:
        call_model(model, batch)
    return inputs


class _StopForward(BaseException):
    """No module is waited for any longer."""


@contextmanager
def _capture_hooks(
    modules: Mapping[str, nn.Module], inputs: dict[str, torch.Tensor]
) -> Iterator[None]:
    waiting = set(modules)

    def make_hook(name: str) -> Callable[..., None]:
        def capture_input(module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
            waiting.discard(name)
            match args, output:
                case (torch.Tensor() as x,), torch.Tensor() if x.shape == output.shape:
                    if x.dim() > 1:
                        inputs.setdefault(name, x.clone())
            if not waiting:
                raise _StopForward

        return capture_input

    with ExitStack() as hooks:
        for name, module in modules.items():
            hooks.callback(module.register_forward_hook(make_hook(name)).remove)
        yield


def _without_gradients(module: nn.Module) -> Operation:
    def apply_operation(x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            y: torch.Tensor = module(x.clone())
        return y.double()

    return apply_operation


def _token_axis(norm: DetectedNorm, x: torch.Tensor) -> int | None:
    """The last axis of x, but for the first, that holds no features; None where all may.

    A module may turn axes before it normalises, so features are recognised by their number.
    """
    by_channel = norm.kind in ("batchnorm", "groupnorm")
    if not by_channel and norm.source.shape[1:] == tuple(x.shape[1:]):
        free = x.dim() - len(norm.axes)
        return free - 1 if free > 1 else None
    features = norm.source.shape[1] if by_channel else norm.count
    others = [axis for axis in range(1, x.dim()) if x.shape[axis] != features]
    return others[-1] if others else (x.dim() - 1 if by_channel and x.dim() > 2 else None)
