"""Any `nn.Module`, built by a function that the user names, or given as it is."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from normdiag.errors import LoadError, UsageError
from normdiag.evidence.subject import Loading
from normdiag.loading.describe_exception import describe_exception
from normdiag.loading.interface import CheckpointTensors, LoadedModel, LoadedTarget
from normdiag.loading.module_state import iterate_module_state
from normdiag.loading.target_reference import TargetReference
from normdiag.loading.torch_compile import unwrap_compiled
from normdiag.options import LoadingOptions
from normdiag.progress import Progress

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True)
class ModelFactory:
    """Code that was named and not yet run."""

    reference: TargetReference
    options: LoadingOptions

    def load_contents(self, progress: Progress) -> LoadedTarget:
        """Import the code, call the factory, and take what it returns."""
        progress.start_stage("importing torch")
        import torch

        from normdiag.loading.device_and_dtype import (
            META_DEVICE,
            prepare_model,
            resolve_device,
            resolve_dtype,
        )

        bare = self.options.structure_only
        dtype = resolve_dtype(self.options.dtype)
        device = META_DEVICE if bare else resolve_device(self.options.device)
        progress.start_stage(f"calling {self.reference.target}")
        with (
            redirect_stdout(sys.stderr),
            _extended_search_path(self.reference),
            torch.random.fork_rng(devices=[]),
        ):
            torch.manual_seed(self.options.seed)
            found = _find_attribute(self.reference)  # what its module makes once is to have values
            with META_DEVICE if bare else nullcontext():
                built = _call_factory(self.reference, found)
        model, inputs = built if isinstance(built, tuple) and len(built) == 2 else (built, None)
        if not isinstance(model, torch.nn.Module):
            raise LoadError(
                f"{self.reference.target} gave a {type(built).__name__}, not an nn.Module",
                "return the module, or the pair (module, inputs of its forward)",
            )
        if bare:
            return wrap_module(prepare_model(model, device, dtype), inputs, structure_only=True)
        _refuse_meta_parameters(self.reference.target, model)
        runnable = wrap_module(prepare_model(model, device, dtype), inputs)
        return _state_dict_only(runnable) if self.options.weights_only else runnable


def open_factory(reference: TargetReference, options: LoadingOptions) -> ModelFactory:
    """Nothing can be checked before the code is run, but for what contradicts itself."""
    if options.random_init:
        raise UsageError(
            f"random weights were asked for, and {reference.target} builds its own",
            "leave it out; the seed is set before the factory is called",
        )
    return ModelFactory(reference, options)


def wrap_module(
    model: nn.Module, inputs: Any | None = None, *, structure_only: bool = False
) -> LoadedModel:
    """A module that exists already, left in the mode, dtype and place it is in.

    Raises LoadError for one without values, UsageError for one with values whose structure only
    is wanted: it would have to be moved.
    """
    model, notes = unwrap_compiled(model)
    name = type(model).__name__
    if structure_only:
        _refuse_real_parameters(name, model)
    else:
        _refuse_meta_parameters(name, model)
    config = getattr(model, "config", None)
    model_type = getattr(config, "model_type", None)
    return LoadedModel(
        model=model,
        config=config,
        tokenizer=None,
        notes=notes,
        loading=Loading(),
        tensors=lambda _: iterate_module_state(model),
        model_type=model_type if isinstance(model_type, str) and model_type else None,
        class_name=name,
        mode="structure-only" if structure_only else "run",
        author_inputs=inputs,
    )


def _state_dict_only(runnable: LoadedModel) -> CheckpointTensors:
    return CheckpointTensors(
        tensors=runnable.tensors,
        model_type=runnable.model_type,
        class_name=runnable.class_name,
        loading=runnable.loading,
        notes=("the state dict of the module that the factory built",),
    )


@contextmanager
def _extended_search_path(reference: TargetReference) -> Iterator[None]:
    """Modules beside the named file, or in the working directory, can be imported meanwhile."""
    before = list(sys.path)
    here = reference.path.parent if reference.path is not None else Path.cwd()
    sys.path[:0] = [str(here.absolute()), str(Path.cwd())]
    try:
        yield
    finally:
        sys.path[:] = before


def _find_attribute(reference: TargetReference) -> Any:
    """The named object of the named module. Raises LoadError where there is none."""
    try:
        module = _import_module(reference)
    except (Exception, SystemExit) as error:
        raise LoadError(
            f"{reference.module or reference.path} cannot be imported: {describe_exception(error, with_location=True)}",
            "import it in Python to see the whole traceback; a file that imports its siblings "
            "relatively is named as package.module:function",
        ) from error
    found: Any = module
    for part in (reference.factory or "").split("."):
        if not hasattr(found, part):
            raise LoadError(
                f"{reference.module or reference.path} has no {part!r}",
                f"it has: {', '.join(_list_callables(found)) or 'nothing that can be called'}",
            )
        found = getattr(found, part)
    return found


def _import_module(reference: TargetReference) -> ModuleType:
    if reference.path is None:
        return importlib.import_module(reference.module or "")
    name = f"normdiag_target_{reference.path.stem}"  # must not hide an installed module
    spec = importlib.util.spec_from_file_location(name, reference.path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{reference.path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickling look their module up
    spec.loader.exec_module(module)
    return module


def _list_callables(found: Any) -> list[str]:
    return [
        name
        for name, value in vars(found).items()
        if callable(value) and not name.startswith("_") and _is_defined_in(found, value)
    ]


def _is_defined_in(found: Any, value: Any) -> bool:
    return getattr(value, "__module__", None) == getattr(found, "__name__", None)


def _call_factory(reference: TargetReference, found: Any) -> Any:
    import torch

    if isinstance(found, torch.nn.Module):
        return found
    if not callable(found):
        raise LoadError(
            f"{reference.target} is a {type(found).__name__}, not a function or a module",
            "name a function without arguments that returns an nn.Module",
        )
    if needed := _required_parameters(found):
        raise LoadError(
            f"{reference.target} needs {', '.join(needed)}, and a factory is called without "
            "arguments",
            "write a function that gives them and name that one",
        )
    try:
        return found()
    except (Exception, SystemExit) as error:
        raise LoadError(
            f"{reference.target} raised {describe_exception(error, with_location=True)}",
            "call it in Python to see the whole traceback",
        ) from error


def _required_parameters(found: Any) -> list[str]:
    """Arguments without a default; none where the signature cannot be told."""
    try:
        parameters = inspect.signature(found).parameters.values()
    except (ValueError, TypeError):
        return []
    open_ended = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [p.name for p in parameters if p.default is p.empty and p.kind not in open_ended]


def _refuse_meta_parameters(target: str, model: nn.Module) -> None:
    for name, parameter in model.named_parameters():
        if parameter.is_meta:
            raise LoadError(
                f"{target} is a module without values ({name} is on the meta device)",
                "build it on a device that holds values, or look at its structure only "
                "(--structure-only, in Python structure_only=True)",
            )


def _refuse_real_parameters(target: str, model: nn.Module) -> None:
    for name, parameter in model.named_parameters():
        if not parameter.is_meta:
            raise UsageError(
                f"the structure only was asked for, and {target} has values ({name} on "
                f"{parameter.device})",
                'leave structure_only out, or build it under `with torch.device("meta")`',
            )
