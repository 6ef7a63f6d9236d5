"""A transformers model from a folder, through `from_pretrained`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch
import transformers

from normdiag.errors import LoadError, translate_foreign_errors
from normdiag.evidence.subject import Loading
from normdiag.loading.config_file import ConfigFile
from normdiag.loading.describe_exception import describe_exception
from normdiag.loading.device_and_dtype import (
    META_DEVICE,
    prepare_model,
    resolve_device,
    resolve_dtype,
)
from normdiag.loading.interface import LoadedModel
from normdiag.loading.model_class import (
    choose_model_class,
    load_config,
    needs_checkpoint_code,
    refuse_checkpoint_code,
    select_sub_config,
)
from normdiag.loading.silence_libraries import silence_libraries
from normdiag.loading.tokenizer import load_tokenizer
from normdiag.loading.unbuilt_layers import find_unbuilt_layers
from normdiag.options import LoadingOptions
from normdiag.progress import Progress

if TYPE_CHECKING:
    from normdiag.loading.interface import TensorReader


@dataclass(frozen=True, kw_only=True)
class PretrainedFiles:
    """What `from_pretrained` reads: a folder, a GGUF in it, or a state dict and a configuration."""

    folder: Path
    settings: ConfigFile | None
    tensors: TensorReader
    gguf_file: str | None = None
    state_dict: Callable[[], dict[str, torch.Tensor]] | None = None


@dataclass(frozen=True)
class ModelChoice:
    """The class to build, its configuration, and the requested dtype, if any."""

    model_class: Any
    config: Any
    dtype: torch.dtype | None
    note: str


def load_pretrained(
    checkpoint: PretrainedFiles, options: LoadingOptions, progress: Progress
) -> LoadedModel:
    """Build the model that the checkpoint's configuration describes and load its weights.

    Raises LoadError for a configuration that describes no model, for remote code without
    permission, for weights none of which fit, and for errors of transformers itself.
    """
    device = META_DEVICE if options.structure_only else resolve_device(options.device)
    is_from_config = options.random_init or options.structure_only
    with silence_libraries(progress), torch.random.fork_rng(devices=[]):
        torch.manual_seed(options.seed)  # for parameters missing in the checkpoint
        choice = _choose_model(checkpoint, options)
        build = _build_from_config if is_from_config else _build_from_weights
        with translate_foreign_errors(lambda error: _explain_error(error, checkpoint, choice)):
            model, loading, notes = build(checkpoint, options, choice)
        tokenizer, unusable = _find_tokenizer(checkpoint, options)
        model = prepare_model(model, device)
    return LoadedModel(
        model=model,
        config=model.config,
        tokenizer=tokenizer,
        notes=tuple(note for note in (choice.note, *notes, unusable) if note),
        loading=loading,
        tensors=_iterate_state_dict(model) if is_from_config else checkpoint.tensors,
        model_type=choice.config.model_type,
        class_name=type(model).__name__,
        mode=_loading_mode(options),
        config_fields=checkpoint.settings.fields if checkpoint.settings else None,
    )


def _loading_mode(options: LoadingOptions) -> Literal["run", "random-init", "structure-only"]:
    if options.structure_only:
        return "structure-only"
    return "random-init" if options.random_init else "run"


def _find_tokenizer(
    checkpoint: PretrainedFiles, options: LoadingOptions
) -> tuple[Any | None, str | None]:
    if options.structure_only:  # without values, which tokens are run makes no difference
        return None, None
    return load_tokenizer(checkpoint.folder, checkpoint.gguf_file, trust=options.trust_remote_code)


def _choose_model(checkpoint: PretrainedFiles, options: LoadingOptions) -> ModelChoice:
    settings, dtype = checkpoint.settings, resolve_dtype(options.dtype)
    extra: dict[str, Any] = {}
    own_code = settings is not None and needs_checkpoint_code(settings)
    if settings is not None and own_code and not options.trust_remote_code:
        refuse_checkpoint_code(settings)
    if checkpoint.gguf_file is not None:
        extra["gguf_file"] = checkpoint.gguf_file
    where = settings.path if settings else checkpoint.folder / (checkpoint.gguf_file or "")
    with translate_foreign_errors(
        lambda error: LoadError(
            f"{where} describes no model: {describe_exception(error)}",
            "correct that field, or check the tensors without it: --weights-only",
        )
    ):
        config = load_config(checkpoint.folder, settings, trust_remote_code=own_code, **extra)
        chosen, note = choose_model_class(config, settings, own_code=own_code)
    return ModelChoice(chosen, select_sub_config(config, chosen), dtype, note)


def _build_from_config(
    checkpoint: PretrainedFiles, options: LoadingOptions, choice: ModelChoice
) -> tuple[Any, Loading, tuple[str, ...]]:
    with META_DEVICE if options.structure_only else nullcontext():
        model, stated = choice.model_class(choice.config), choice.config.dtype
    dtype = choice.dtype or (stated if isinstance(stated, torch.dtype) else torch.float32)
    notes = [f"weights are random (seed {options.seed}), drawn by the configuration"]
    if options.structure_only:
        notes = ["built from the configuration; no weights were read"]
    settings = checkpoint.settings
    if settings is not None and settings.quantisation_method is not None:
        notes.append(
            f"the stored weights are quantised ({settings.quantisation_method}); these are not"
        )
    return model.to(dtype), Loading(), tuple(notes)


def _build_from_weights(
    checkpoint: PretrainedFiles, options: LoadingOptions, choice: ModelChoice
) -> tuple[Any, Loading, tuple[str, ...]]:
    extra: dict[str, Any] = {}
    if checkpoint.gguf_file is not None:
        extra["gguf_file"] = checkpoint.gguf_file
        if hasattr(
            transformers, "GgufConfig"
        ):  # otherwise weights stay quantised where a kernel runs them
            extra["quantization_config"] = transformers.GgufConfig(dequantize=True)
    state_dict = checkpoint.state_dict() if checkpoint.state_dict is not None else None
    model, info = choice.model_class.from_pretrained(
        checkpoint.folder if state_dict is None else None,
        config=choice.config,
        state_dict=state_dict,
        dtype=choice.dtype or "auto",
        output_loading_info=True,
        ignore_mismatched_sizes=True,  # reported with all other parameters that were not loaded
        trust_remote_code=options.trust_remote_code,
        local_files_only=True,
        **extra,
    )
    return model, *_summarise_loading(model, info, checkpoint)


def _summarise_loading(
    model: Any, info: dict[str, Any], checkpoint: PretrainedFiles
) -> tuple[Loading, tuple[str, ...]]:
    """Summarise which parameters were not loaded. Raises LoadError where none was."""
    missing, unexpected = sorted(info["missing_keys"]), sorted(info["unexpected_keys"])
    shapes = {name: (tuple(have), tuple(want)) for name, have, want in info["mismatched_keys"]}
    not_loaded = {*missing, *shapes}
    parameters = dict(model.named_parameters())
    if parameters and not_loaded.issuperset(parameters):
        raise _no_match_error(type(model).__name__, missing, unexpected, shapes)
    vectors = {name for name, value in model.state_dict().items() if value.ndim == 1}
    notes = [
        f"{name}: {have} in the checkpoint, {want} in the model; newly initialised"
        for name, (have, want) in sorted(shapes.items())[:3]
    ]
    settings = checkpoint.settings
    if settings is not None and settings.quantisation_method is not None:
        notes.append(_describe_quantisation(model, settings.quantisation_method))
    loading = Loading(
        unbuilt_layers=find_unbuilt_layers(model, unexpected),
        missing=tuple(missing),
        unexpected=tuple(unexpected),
        mismatched=tuple(sorted(shapes)),
        norm_parameters=tuple(sorted(not_loaded & vectors)),
    )
    return loading, tuple(notes)


def _describe_quantisation(model: Any, method: str) -> str:
    from transformers.quantizers import AutoHfQuantizer

    if getattr(model, "hf_quantizer", None) is not None:
        handling = "and run quantised"
    elif AutoHfQuantizer.supports_quant_method({"quant_method": method}):
        handling = "and dequantised"  # as transformers does with fp8 without a GPU
    else:
        handling = "by a method that transformers does not know; read as plain tensors"
    return f"stored weights are quantised ({method}) {handling}"


def _no_match_error(
    name: str, missing: list[str], unexpected: list[str], shapes: dict[str, Any]
) -> LoadError:
    if shapes:
        first, (have, want) = next(iter(sorted(shapes.items())))
        reason = f"{first} is {have} in the checkpoint and {want} by the configuration"
    else:
        reason = f"the model needs {missing[0]}"
        reason += f", the checkpoint has {unexpected[0]}" if unexpected else ""
    return LoadError(
        f"no tensor of the checkpoint fits {name}: {reason}",
        "config.json and the weights are of different models; --weights-only checks the tensors",
    )


def _explain_error(
    error: BaseException, checkpoint: PretrainedFiles, choice: ModelChoice
) -> LoadError:
    """Turn an exception of transformers into a LoadError with a remedy."""
    settings, name = checkpoint.settings, choice.model_class.__name__
    if settings is not None and settings.quantisation_method is not None:
        return LoadError(
            f"the weights are quantised ({settings.quantisation_method}) and cannot be run here: "
            f"{describe_exception(error)}",
            "install the backend it names, or check the stored tensors without it: --weights-only",
        )
    if isinstance(error, ImportError):
        return LoadError(f"{name} needs a package: {describe_exception(error)}", "install it")
    what = checkpoint.gguf_file or "config.json and the weights"
    return LoadError(
        f"{name} cannot be built from {what}: {describe_exception(error, with_location=True)}",
        "a field of the configuration is wrong or belongs to another class; --weights-only checks "
        "the tensors alone",
    )


def _iterate_state_dict(model: torch.nn.Module) -> TensorReader:
    return lambda _: iter(model.state_dict().items())
