"""From a request to something that can be analysed."""

from __future__ import annotations

from normdiag.errors import LoadError, UsageError
from normdiag.loading.interface import LoadedTarget, Progress, Request, Source, silent
from normdiag.loading.target_reference import TargetReference, parse_target


def load_target(request: Request, progress: Progress | None = None) -> LoadedTarget:
    """Open and read the target of `request`.

    Raises LoadError with cause and remedy where no model comes out of it, UsageError where the
    request asks for what its target cannot have.
    """
    watch = progress or silent
    try:
        return open_source(request, watch).load(watch)
    except OSError as error:
        raise LoadError(f"{request.target} cannot be read: {error}") from error


def open_source(request: Request, progress: Progress = silent) -> Source:
    """Find the target and check all that can be checked without torch: cheap, so do it first."""
    reference = parse_target(request.target)
    if request.revision is not None and reference.kind != "hub":
        raise UsageError(
            f"revision {request.revision!r} was given, and {request.target} is no hub id",
            "a revision is a branch, tag or commit of a hub repository",
        )
    ways = {
        "random weights": request.random_init,
        "the structure only": request.structure_only,
        "weights only": request.weights_only,
    }
    asked = [way for way, wanted in ways.items() if wanted]
    if len(asked) > 1:
        raise UsageError(f"{', and '.join(asked)} were asked for", "choose one of them")
    if request.adapter is None:
        return _open_source(reference, request, progress)
    from normdiag.loading.adapter import AdaptedModel, open_adapter

    adapter = open_adapter(request.adapter, request)  # before its base is fetched
    return AdaptedModel(_open_source(reference, request, progress), adapter)


def _open_source(reference: TargetReference, request: Request, progress: Progress) -> Source:
    match reference.kind:
        case "hub":
            from normdiag.loading.hub import open_hub

            return open_hub(request, progress)
        case "directory":
            from normdiag.loading.checkpoint_directory import open_directory

            return open_directory(reference, request)
        case "safetensors" | "checkpoint":
            from normdiag.loading.checkpoint_file import open_checkpoint

            return open_checkpoint(reference, request)
        case "gguf":
            from normdiag.loading.gguf import open_gguf

            return open_gguf(reference, request)
        case "factory":
            from normdiag.loading.factory import open_factory

            return open_factory(reference, request)
