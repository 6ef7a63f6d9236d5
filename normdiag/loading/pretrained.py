"""A transformers model from a folder, through `from_pretrained` and nothing beside it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch
import transformers

from normdiag.errors import LoadError, NormdiagError
from normdiag.evidence.subject import Loading
from normdiag.loading.config_file import ConfigFile
from normdiag.loading.describe_exception import cause
from normdiag.loading.device_and_dtype import META, device_of, dtype_of, settle
from normdiag.loading.interface import Progress, Request, Runnable
from normdiag.loading.library_output import quiet
from normdiag.loading.model_class import (
    configuration,
    model_class,
    needs_own_code,
    own_config,
    refuse_own_code,
)
from normdiag.loading.tokenizer import find_tokenizer

if TYPE_CHECKING:
    from normdiag.loading.interface import Tensors


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """What `from_pretrained` reads: a folder, a GGUF in it, or given tensors with its config."""

    folder: Path
    settings: ConfigFile | None
    tensors: Tensors
    gguf_file: str | None = None
    state_dict: Callable[[], dict[str, torch.Tensor]] | None = None


@dataclass(frozen=True)
class Choice:
    """What is built: a class, the configuration it is built from, and its precision if asked."""

    model_class: Any
    config: Any
    dtype: torch.dtype | None
    note: str


def load_pretrained(checkpoint: Checkpoint, request: Request, progress: Progress) -> Runnable:
    """Build the model that the checkpoint's configuration describes and fill it.

    Raises LoadError for a configuration that describes no model, for code that was not asked
    for, for weights that do not fit at all, and for what transformers itself refuses.
    """
    device = META if request.structure_only else device_of(request.device)
    is_made = request.random_init or request.structure_only
    with quiet(progress), torch.random.fork_rng(devices=[]):
        torch.manual_seed(request.seed)  # what the checkpoint lacks is newly initialised
        choice = _choose(checkpoint, request)
        build = _from_config if is_made else _from_weights
        try:
            model, loading, notes = build(checkpoint, request, choice)
        except NormdiagError:
            raise
        except Exception as error:
            raise _explained(error, checkpoint, choice) from error
        tokenizer, unusable = _tokenizer(checkpoint, request)
        model = settle(model, device)
    return Runnable(
        model=model,
        config=model.config,
        tokenizer=tokenizer,
        notes=tuple(note for note in (choice.note, *notes, unusable) if note),
        loading=loading,
        tensors=_tensors_of(model) if is_made else checkpoint.tensors,
        model_type=choice.config.model_type,
        class_name=type(model).__name__,
        mode=_mode(request),
        written=checkpoint.settings.fields if checkpoint.settings else None,
    )


def _mode(request: Request) -> Literal["run", "random-init", "structure-only"]:
    if request.structure_only:
        return "structure-only"
    return "random-init" if request.random_init else "run"


def _tokenizer(checkpoint: Checkpoint, request: Request) -> tuple[Any | None, str | None]:
    if request.structure_only:  # without values it is all one which ids are run
        return None, None
    return find_tokenizer(checkpoint.folder, checkpoint.gguf_file, trust=request.trust_remote_code)


def _choose(checkpoint: Checkpoint, request: Request) -> Choice:
    settings, dtype = checkpoint.settings, dtype_of(request.dtype)
    extra: dict[str, Any] = {}
    own_code = settings is not None and needs_own_code(settings)
    if settings is not None and own_code and not request.trust_remote_code:
        refuse_own_code(settings)
    if checkpoint.gguf_file is not None:
        extra["gguf_file"] = checkpoint.gguf_file
    try:
        config = configuration(checkpoint.folder, settings, trust_remote_code=own_code, **extra)
        chosen, note = model_class(config, settings, own_code=own_code)
    except NormdiagError:
        raise
    except Exception as error:
        where = settings.path if settings else checkpoint.folder / (checkpoint.gguf_file or "")
        raise LoadError(
            f"{where} describes no model: {cause(error)}",
            "correct that field; --weights-only looks at the tensors without it",
        ) from error
    return Choice(chosen, own_config(config, chosen), dtype, note)


def _from_config(
    checkpoint: Checkpoint, request: Request, choice: Choice
) -> tuple[Any, Loading, tuple[str, ...]]:
    with META if request.structure_only else nullcontext():
        model, stated = choice.model_class(choice.config), choice.config.dtype
    dtype = choice.dtype or (stated if isinstance(stated, torch.dtype) else torch.float32)
    notes = [f"weights are random (seed {request.seed}), from the configuration alone"]
    if request.structure_only:
        notes = ["built from the configuration alone: no weights were read"]
    settings = checkpoint.settings
    if settings is not None and settings.quantisation is not None:
        notes.append(f"the stored weights are quantised ({settings.quantisation}), these are not")
    return model.to(dtype), Loading(), tuple(notes)


def _from_weights(
    checkpoint: Checkpoint, request: Request, choice: Choice
) -> tuple[Any, Loading, tuple[str, ...]]:
    extra: dict[str, Any] = {}
    if checkpoint.gguf_file is not None:
        extra["gguf_file"] = checkpoint.gguf_file
        if hasattr(transformers, "GgufConfig"):  # else weights stay packed where a kernel can
            extra["quantization_config"] = transformers.GgufConfig(dequantize=True)
    given = checkpoint.state_dict() if checkpoint.state_dict is not None else None
    model, info = choice.model_class.from_pretrained(
        checkpoint.folder if given is None else None,
        config=choice.config,
        state_dict=given,
        dtype=choice.dtype or "auto",
        output_loading_info=True,
        ignore_mismatched_sizes=True,  # they are reported, with all that was not loaded
        trust_remote_code=request.trust_remote_code,
        local_files_only=True,
        **extra,
    )
    return model, *_told(model, info, checkpoint)


def _told(
    model: Any, info: dict[str, Any], checkpoint: Checkpoint
) -> tuple[Loading, tuple[str, ...]]:
    """What the loader could not match. Raises LoadError where nothing did match."""
    missing, unexpected = sorted(info["missing_keys"]), sorted(info["unexpected_keys"])
    shapes = {name: (tuple(have), tuple(want)) for name, have, want in info["mismatched_keys"]}
    lost = {*missing, *shapes}
    parameters = dict(model.named_parameters())
    if parameters and lost.issuperset(parameters):
        raise _nothing_fits(type(model).__name__, missing, unexpected, shapes)
    vectors = {name for name, value in model.state_dict().items() if value.ndim == 1}
    notes = [
        f"{name}: {have} in the checkpoint, {want} in the model; newly initialised"
        for name, (have, want) in sorted(shapes.items())[:3]
    ]
    settings = checkpoint.settings
    if settings is not None and settings.quantisation is not None:
        notes.append(_told_quantised(model, settings.quantisation))
    loading = Loading(
        missing=tuple(missing),
        unexpected=tuple(unexpected),
        mismatched=tuple(sorted(shapes)),
        norm_parameters=tuple(sorted(lost & vectors)),
    )
    return loading, tuple(notes)


def _told_quantised(model: Any, method: str) -> str:
    from transformers.quantizers import AutoHfQuantizer

    if getattr(model, "hf_quantizer", None) is not None:
        handled = "and run so"
    elif AutoHfQuantizer.supports_quant_method({"quant_method": method}):
        handled = "and unpacked to be run"  # as transformers does with fp8 where no GPU is
    else:
        handled = "in a way that transformers does not know; read as if they were not"
    return f"weights are stored quantised ({method}), {handled}"


def _nothing_fits(
    name: str, missing: list[str], unexpected: list[str], shapes: dict[str, Any]
) -> LoadError:
    if shapes:
        first, (have, want) = next(iter(sorted(shapes.items())))
        why = f"{first} is {have} in the checkpoint and {want} by the configuration"
    else:
        why = f"the model wants {missing[0]}"
        why += f", the checkpoint has {unexpected[0]}" if unexpected else ""
    return LoadError(
        f"no tensor of the checkpoint fits {name}: {why}",
        "config.json and the weights are not of one model; --weights-only looks at the tensors",
    )


def _explained(error: Exception, checkpoint: Checkpoint, choice: Choice) -> LoadError:
    """What transformers raised, with what to do about it."""
    settings, name = checkpoint.settings, choice.model_class.__name__
    if settings is not None and settings.quantisation is not None:
        return LoadError(
            f"the weights are quantised ({settings.quantisation}) and cannot be run here: "
            f"{cause(error)}",
            "install the backend it names; --weights-only looks at the stored tensors, the norms "
            "among them, without it",
        )
    if isinstance(error, ImportError):
        return LoadError(f"{name} needs a package: {cause(error)}", "install it")
    what = checkpoint.gguf_file or "config.json and the weights"
    return LoadError(
        f"{name} cannot be built from {what}: {cause(error, place=True)}",
        "a field of the configuration is wrong or is not of this class; --weights-only looks at "
        "the tensors alone",
    )


def _tensors_of(model: torch.nn.Module) -> Tensors:
    return lambda _: iter(model.state_dict().items())
