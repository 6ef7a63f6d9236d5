"""From a target string to a model or its tensors."""

from __future__ import annotations

from pathlib import Path

from normdiag.errors import LoadError, UsageError
from normdiag.loading.device_map import refuse_unplaceable
from normdiag.loading.interface import LoadedTarget, Source
from normdiag.loading.target_reference import TargetReference, parse_target
from normdiag.options import LoadingOptions
from normdiag.progress import NoProgress, Progress


def load_target(
    target: str, options: LoadingOptions | None = None, progress: Progress | None = None
) -> LoadedTarget:
    """Open and load `target`.

    Raises:
        LoadError: with cause and remedy, where neither a model nor tensors can be loaded.
        UsageError: where the options contradict each other or the kind of target.
    """
    progress = progress or NoProgress()
    try:
        return open_source(target, options, progress).load_contents(progress)
    except OSError as error:
        raise LoadError(f"{target} cannot be read: {error}") from error


def open_source(
    target: str, options: LoadingOptions | None = None, progress: Progress | None = None
) -> Source:
    """Find `target` and check everything that is cheap and needs no torch."""
    options, progress = options or LoadingOptions(), progress or NoProgress()
    reference = parse_target(target)
    if options.revision is not None and reference.kind != "hub":
        raise UsageError(
            f"revision {options.revision!r} does not apply to {target}, which is no hub id",
            "a revision is a branch, tag or commit of a hub repository; leave it out",
        )
    modes = {
        "random_init": options.random_init,
        "structure_only": options.structure_only,
        "weights_only": options.weights_only,
        "device_map": options.device_map is not None,
    }
    chosen = [mode for mode, is_chosen in modes.items() if is_chosen]
    if len(chosen) > 1:
        raise UsageError(f"{' and '.join(chosen)} exclude each other", "choose one of them")
    refuse_unplaceable(options, reference.kind, target)
    if options.adapter is None:
        return _open_reference(reference, options, progress)
    from normdiag.loading.adapter import AdaptedModel, open_adapter

    folder = Path(options.adapter).expanduser()
    adapter = open_adapter(folder, options)  # before its base model is downloaded
    return AdaptedModel(_open_reference(reference, options, progress), adapter)


def _open_reference(
    reference: TargetReference, options: LoadingOptions, progress: Progress
) -> Source:
    match reference.kind:
        case "hub":
            from normdiag.loading.hub import open_hub

            return open_hub(reference.target, options, progress)
        case "directory":
            from normdiag.loading.checkpoint_directory import open_directory

            return open_directory(reference, options)
        case "safetensors" | "checkpoint":
            from normdiag.loading.checkpoint_file import open_checkpoint

            return open_checkpoint(reference, options)
        case "gguf":
            from normdiag.loading.gguf import open_gguf

            return open_gguf(reference, options)
        case "factory":
            from normdiag.loading.factory import open_factory

            return open_factory(reference, options)
