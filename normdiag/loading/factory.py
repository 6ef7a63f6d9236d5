"""Any `nn.Module`, built by a function that the user names, or passed as an object."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from normdiag.errors import LoadError, UsageError
from normdiag.evidence.subject import Loading
from normdiag.loading.describe_exception import describe_exception
from normdiag.loading.gathered_shards import gather_shards
from normdiag.loading.interface import CheckpointTensors, LoadedModel, LoadedTarget
from normdiag.loading.module_state import iterate_module_state
from normdiag.loading.offloaded_weights import list_offloaded
from normdiag.loading.target_reference import TargetReference
from normdiag.loading.torch_compile import unwrap_compiled
from normdiag.loading.traced_module import describe_traced, is_exported_program
from normdiag.options import LoadingOptions
from normdiag.progress import Progress

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True)
class ModelFactory:
    """A named factory that has not been called yet."""

    reference: TargetReference
    options: LoadingOptions

    def load_contents(self, progress: Progress) -> LoadedTarget:
        """Import the module, call the factory and wrap the module that it returns."""
        progress.start_stage("importing torch")
        import torch

        from normdiag.loading.device_and_dtype import (
            META_DEVICE,
            prepare_model,
            resolve_device,
            resolve_dtype,
        )

        is_structure_only = self.options.structure_only
        dtype = resolve_dtype(self.options.dtype)
        device = META_DEVICE if is_structure_only else resolve_device(self.options.device)
        progress.start_stage(f"calling {self.reference.target}")
        with (
            redirect_stdout(sys.stderr),
            _extended_search_path(self.reference),
            torch.random.fork_rng(devices=[]),
        ):
            torch.manual_seed(self.options.seed)
            # outside of the meta device: module-level tensors of the code need values
            factory = _find_attribute(self.reference)
            with META_DEVICE if is_structure_only else nullcontext():
                built = _call_factory(self.reference, factory)
        model, inputs = built if isinstance(built, tuple) and len(built) == 2 else (built, None)
        if not isinstance(model, torch.nn.Module):
            raise _no_module_error(
                self.reference.target, model if is_exported_program(model) else built
            )
        if is_structure_only:
            return wrap_module(prepare_model(model, device, dtype), inputs, structure_only=True)
        _refuse_uninitialised(self.reference.target, model)
        _refuse_meta_parameters(self.reference.target, model)
        loaded = wrap_module(prepare_model(model, device, dtype), inputs)
        return _state_dict_only(loaded) if self.options.weights_only else loaded


def open_factory(reference: TargetReference, options: LoadingOptions) -> ModelFactory:
    """Check the options. The code itself cannot be checked before it is run."""
    if options.random_init:
        raise UsageError(
            f"random_init does not apply to {reference.target}: factories draw their own weights",
            "leave it out; torch's seed is set before the factory is called",
        )
    return ModelFactory(reference, options)


def wrap_module(
    model: nn.Module, inputs: Any | None = None, *, structure_only: bool = False
) -> LoadedModel:
    """Wrap an existing module; its mode, dtype and device stay as they are.

    Raises:
        LoadError: where a parameter is on the meta device and the model is to be run.
        UsageError: where `structure_only` is set and a parameter is not on the meta device.
    """
    model, compiled = unwrap_compiled(model)
    _refuse_uninitialised(type(model).__name__, model)
    if structure_only:
        _refuse_real_parameters(type(model).__name__, model)
    else:
        _refuse_meta_parameters(type(model).__name__, model)
    traced = describe_traced(model)
    config = getattr(model, "config", None)
    model_type = getattr(config, "model_type", None)
    gathered, restore = gather_shards(model)  # last: whoever has the result puts them back
    return LoadedModel(
        model=model,
        config=config,
        tokenizer=None,
        notes=(*compiled, *gathered, *traced),
        loading=Loading(),
        tensors=lambda _: iterate_module_state(model),
        model_type=model_type if isinstance(model_type, str) and model_type else None,
        class_name=type(model).__name__,
        mode="structure-only" if structure_only else "run",
        author_inputs=inputs,
        restore=restore,
    )


def _state_dict_only(loaded: LoadedModel) -> CheckpointTensors:
    return CheckpointTensors(
        tensors=loaded.tensors,
        model_type=loaded.model_type,
        class_name=loaded.class_name,
        loading=loaded.loading,
        notes=("no model was run; the state dict of the factory's module was read",),
    )


@contextmanager
def _extended_search_path(reference: TargetReference) -> Iterator[None]:
    """Put the directory of the file and the working directory on `sys.path`, temporarily."""
    original = list(sys.path)
    folder = reference.path.parent if reference.path is not None else Path.cwd()
    sys.path[:0] = [str(folder.absolute()), str(Path.cwd())]
    try:
        yield
    finally:
        sys.path[:] = original


def _find_attribute(reference: TargetReference) -> Any:
    """Import the module and look the factory up. Raises LoadError where either fails."""
    try:
        module = _import_module(reference)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise LoadError(
            f"{reference.module or reference.path} cannot be imported: "
            f"{describe_exception(error, with_location=True)}",
            "import it in Python to see the traceback; a file with relative imports is passed as "
            "package.module:function",
        ) from error
    value: Any = module
    for part in (reference.factory or "").split("."):
        if not hasattr(value, part):
            raise LoadError(
                f"{reference.module or reference.path} has no attribute {part!r}",
                f"callables in it: {', '.join(_list_callables(value)) or 'none'}",
            )
        value = getattr(value, part)
    return value


def _import_module(reference: TargetReference) -> ModuleType:
    if reference.path is None:
        return importlib.import_module(reference.module or "")
    name = f"normdiag_target_{reference.path.stem}"  # must not shadow an installed module
    spec = importlib.util.spec_from_file_location(name, reference.path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{reference.path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickling look their module up
    spec.loader.exec_module(module)
    return module


def _list_callables(owner: Any) -> list[str]:
    return [
        name
        for name, value in vars(owner).items()
        if callable(value) and not name.startswith("_") and _is_defined_in(owner, value)
    ]


def _is_defined_in(owner: Any, value: Any) -> bool:
    return getattr(value, "__module__", None) == getattr(owner, "__name__", None)


def _call_factory(reference: TargetReference, factory: Any) -> Any:
    import torch

    if isinstance(factory, torch.nn.Module):
        return factory
    if not callable(factory):
        raise LoadError(
            f"{reference.target} is a {type(factory).__name__}, neither a function nor a module",
            "pass a function without required arguments that returns an nn.Module",
        )
    if needed := _required_parameters(factory):
        raise LoadError(
            f"{reference.target} requires arguments ({', '.join(needed)}), and a factory is called "
            "without any",
            "pass a function that calls it with these arguments",
        )
    try:
        return factory()
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise LoadError(
            f"{reference.target} raised {describe_exception(error, with_location=True)}",
            "call it in Python to see the traceback",
        ) from error


def _no_module_error(target: str, built: Any) -> LoadError:
    return LoadError(
        f"{target} returned a {type(built).__name__}, not an nn.Module",
        "return its module() in its place"
        if is_exported_program(built)
        else "return the module, or the pair (module, inputs of its forward)",
    )


def _required_parameters(factory: Any) -> list[str]:
    """Arguments without a default; none where the signature is unavailable."""
    try:
        parameters = inspect.signature(factory).parameters.values()
    except (ValueError, TypeError):
        return []
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [p.name for p in parameters if p.default is p.empty and p.kind not in variadic]


def _refuse_uninitialised(target: str, model: nn.Module) -> None:
    from torch.nn.parameter import is_lazy

    for name, tensor in chain(model.named_parameters(), model.named_buffers()):
        if is_lazy(tensor):
            raise LoadError(
                f"{name} of {target} has no shape yet: it is made by the first forward (a lazy "
                "module)",
                "run the model once before it is passed",
            )


def _refuse_meta_parameters(target: str, model: nn.Module) -> None:
    offloaded = list_offloaded(model)
    for name, parameter in model.named_parameters():
        if parameter.is_meta and name not in offloaded:
            raise LoadError(
                f"{target} has parameters without values ({name} is on the meta device)",
                "build it on another device, or read the architecture alone "
                "(--structure-only, in Python structure_only=True)",
            )


def _refuse_real_parameters(target: str, model: nn.Module) -> None:
    for name, parameter in model.named_parameters():
        if not parameter.is_meta:
            raise UsageError(
                f"structure_only needs all parameters on the meta device; {name} of {target} is on "
                f"{parameter.device}",
                'leave structure_only out, or build it under `with torch.device("meta")`',
            )
