"""One forward pass of the model, read and measured; the model is left as it was found."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from normdiag.capture.recorder import Recorder
from normdiag.capture.scopes import Scopes
from normdiag.capture.frozen_gc import unhurried
from normdiag.capture.meta_forward_mode import Valueless
from normdiag.errors import NormdiagError, RunError
from normdiag.graph import Graph, Node
from normdiag.inputs.batch import Batch
from normdiag.inputs.requirements import forward_parameters
from normdiag.measure.passes.observer import SiteObserver, Wanted
from normdiag.measure.statistics.token_layouts import Layouts, tensors_of
from normdiag.measure.statistics.rows import FirstSequence, Sampler, TokenLayout
from normdiag.structure.attachments import StackStructure
from normdiag.structure.reading import StructureReader


@dataclass(slots=True)
class Pass:
    """What one forward gave."""

    reading: StructureReader
    graph: Graph
    stacks: list[StackStructure]
    sites: SiteObserver
    layouts: Layouts
    is_finite: bool
    """Whether every norm input, every add and the output were finite."""
    asked: tuple[str, ...] = ()
    """Lines of code that asked for values where there are none, and were told some."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """How many tokens are kept for replay, closure and Jacobians (None: all), and the seed."""

    tokens: int | None = 16
    seed: int = 0
    first: int | None = None
    """Instead: so many tokens of the first sequence, at residual adds alone."""

    def sampler(self) -> Sampler:
        return Sampler(self.tokens, self.seed) if self.first is None else FirstSequence(self.first)


def run(model: nn.Module, batch: Batch, wanted: Wanted, sampling: Sampling) -> Pass:
    """Run `model(*args, **inputs)` once under the recorder.

    Where no values are wanted, model and inputs are on the meta device.
    """
    valueless = None if wanted.values else Valueless()
    reading = StructureReader()
    late: dict[str, Layouts] = {}

    def layout_of(node: Node) -> TokenLayout:
        return late["layouts"].of(node)

    sites = SiteObserver(reading, layout_of, sampling.sampler(), wanted)
    with quiet_model(model), torch.no_grad(), Scopes(model) as scopes:
        recorder = Recorder(model, scopes, sites)
        late["layouts"] = Layouts(batch.inputs, recorder.graph)
        bind(recorder, batch)
        with valueless or nullcontext(), unhurried(), recorder:
            output = call(model, batch)
        recorder.graph.calls = scopes.calls
    finite = all(_is_finite(t) for _, t in tensors_of("", _parts(output)))
    finite = finite and sites.are_finite()
    return Pass(
        reading=reading,
        graph=recorder.graph,
        stacks=reading.build_stacks(recorder.graph),
        sites=sites,
        layouts=late["layouts"],
        is_finite=finite,
        asked=tuple(valueless.asked) if valueless else (),
    )


def bind(recorder: Recorder, batch: Batch) -> None:
    """Tell the recorder which tensors are the model's inputs."""
    for i, value in enumerate(batch.args):
        recorder.bind_inputs(tensors_of(f"argument {i}", value))
    for name, value in batch.inputs.items():
        recorder.bind_inputs(tensors_of(name, value))


def call(model: nn.Module, batch: Batch) -> Any:
    """The model's forward; whatever it raises is told with the inputs that it was given."""
    try:
        return model(*batch.args, **batch.inputs)
    except NormdiagError:
        raise
    except Exception as error:
        named = {f"argument {i}": v for i, v in enumerate(batch.args)} | batch.inputs
        given = ", ".join(_described(k, v) for k, v in named.items())
        raise RunError(
            f"the model's forward raised {type(error).__name__}: {error}",
            f"it was called with {given or 'nothing'}{_not_given(model, batch)}; give exactly "
            "what it needs: --inputs FILE (.safetensors or JSON, a key per argument), in Python "
            "inputs={name: tensor}",
        ) from error


def _not_given(model: nn.Module, batch: Batch) -> str:
    """What else forward takes: something among it may be what it misses."""
    others = list(forward_parameters(model))[len(batch.args) :]
    others = [name for name in others if name not in batch.inputs]
    return f" and also takes {', '.join(others)}" if others else ""


def _described(name: str, value: Any) -> str:
    if isinstance(value, torch.Tensor):
        kind = str(value.dtype).removeprefix("torch.")
        return f"{name} {kind}{list(value.shape)}"
    return f"{name} {type(value).__name__}"


def _is_finite(tensor: torch.Tensor) -> bool:
    """Without a temporary of the tensor's size (logits are large)."""
    if not tensor.is_floating_point() or tensor.device.type == "meta" or tensor.numel() == 0:
        return True
    low, high = torch.aminmax(tensor)
    return bool(torch.isfinite(low) & torch.isfinite(high))


def _parts(output: Any) -> Any:
    return dict(output) if isinstance(output, Mapping) else output


@contextmanager
def quiet_model(model: nn.Module) -> Iterator[None]:
    """In eval mode, without torch's fused encoder layer and compiled code; then as it was found.

    The fused layer would hide a whole layer in one operation, as compiled code does. The random
    state is kept too: a model may draw noise.
    """
    was_fast = torch.backends.mha.get_fastpath_enabled()
    training = [m for m in model.modules() if m.training]
    with torch.random.fork_rng(devices=[]), _uncompiled():
        try:
            torch.backends.mha.set_fastpath_enabled(False)
            for module in training:
                module.training = False
            yield
        finally:
            torch.backends.mha.set_fastpath_enabled(was_fast)
            for module in training:
                module.training = True


def _uncompiled() -> AbstractContextManager[object]:
    """Compiled functions and modules run their own code meanwhile.

    Where torch's compiler was never imported there are none, and importing it takes seconds.
    """
    if "torch._dynamo" not in sys.modules:
        return nullcontext()
    stance: AbstractContextManager[object] = torch.compiler.set_stance("force_eager")
    return stance
