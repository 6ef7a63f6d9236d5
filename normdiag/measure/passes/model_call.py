"""One call of the model, with the state of the model and of torch kept as it was."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import nn

from normdiag.errors import RunError, translate_foreign_errors
from normdiag.inputs.batch import Batch
from normdiag.inputs.input_requirements import forward_parameters


def call_model(model: nn.Module, batch: Batch) -> Any:
    """Call `model(*args, **inputs)`.

    Raises:
        RunError: forward raised; the message lists the arguments that it was called with.
    """
    with translate_foreign_errors(lambda error: _forward_error(model, batch, error)):
        return model(*batch.args, **batch.inputs)


def _forward_error(model: nn.Module, batch: Batch, error: BaseException) -> RunError:
    raised = f"the model's forward raised {type(error).__name__}: {error}"
    if not isinstance(error, Exception):
        return RunError(
            raised,
            "that ends a program (sys.exit) or is the panic of an extension, and no input changes "
            "it; call the model in Python to see where it comes from",
        )
    arguments = ", ".join(
        _describe_argument(name, value) for name, value in batch.named_arguments.items()
    )
    return RunError(
        raised,
        f"it was called with {arguments or 'nothing'}{_describe_omitted(model, batch)}; give "
        "exactly what it needs: --inputs FILE (.safetensors or JSON, a key per argument), in "
        "Python inputs={name: tensor}",
    )


def _describe_omitted(model: nn.Module, batch: Batch) -> str:
    """The parameters of forward that got no argument: one of them may be what it needs."""
    omitted = list(forward_parameters(model))[len(batch.args) :]
    omitted = [name for name in omitted if name not in batch.inputs]
    return f" and also takes {', '.join(omitted)}" if omitted else ""


def _describe_argument(name: str, value: Any) -> str:
    if isinstance(value, torch.Tensor):
        dtype = str(value.dtype).removeprefix("torch.")
        return f"{name} {dtype}{list(value.shape)}"
    return f"{name} {type(value).__name__}"


@contextmanager
def quiet_model(model: nn.Module) -> Iterator[None]:
    """Eval mode, without compiled code and without torch's fused encoder layer.

    The fused layer would hide a whole layer in one operation, as compiled code does. Modes and
    random state are restored at the end: a model may draw noise.
    """
    was_fast = torch.backends.mha.get_fastpath_enabled()
    training = [m for m in model.modules() if m.training]
    with torch.random.fork_rng(devices=[]), _without_compiled_code(), _without_script_fusion():
        try:
            torch.backends.mha.set_fastpath_enabled(False)
            for module in training:
                module.training = False
            yield
        finally:
            torch.backends.mha.set_fastpath_enabled(was_fast)
            for module in training:
                module.training = True


def _without_script_fusion() -> AbstractContextManager[object]:
    """Have TorchScript run its graphs as they are.

    Optimised ones fuse operations, and the optimiser compares constants, which fails under a
    dispatch mode.
    """
    return torch.jit.optimized_execution(False)  # type: ignore[attr-defined]


def _without_compiled_code() -> AbstractContextManager[object]:
    """Have compiled functions and modules run their original code.

    Where torch's compiler was never imported there are none, and importing it takes seconds.
    """
    if "torch._dynamo" not in sys.modules:
        return nullcontext()
    stance: AbstractContextManager[object] = torch.compiler.set_stance("force_eager")
    return stance
