"""Load once more where the stored names say how: a part to be cut, or a body without its head."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from normdiag.errors import LoadError
from normdiag.loading.model_class import find_base_class, select_sub_config
from normdiag.loading.pretrained_files import LoadedWeights, ModelChoice, PretrainedFiles
from normdiag.loading.renamed_keys import Renaming, find_renamings

if TYPE_CHECKING:
    import torch

    from normdiag.loading.interface import TensorReader

LoadAgain = Callable[[PretrainedFiles, ModelChoice], LoadedWeights]


def remedy_loading(first: LoadedWeights, load_again: LoadAgain) -> LoadedWeights:
    """`first`, or what a second loading gives where it leaves no parameter unloaded.

    Raises:
        LoadError: nothing was loaded, and the files hold the model more than once.
    """
    settings = first.files.settings
    is_quantised = settings is not None and settings.quantisation_method is not None
    if not first.missing or first.files.gguf_file is not None or is_quantised:
        return first
    stored = first.files.shapes()
    return _load_as_body(first, stored, load_again) or _load_renamed(first, stored, load_again)


def _load_as_body(
    first: LoadedWeights, stored: Mapping[str, tuple[int, ...]], load_again: LoadAgain
) -> LoadedWeights | None:
    """The body alone, where the names are those with which its own class saves it."""
    prefix = f"{first.model.base_model_prefix}."
    body = find_base_class(first.choice.config)
    if body is None or body is type(first.model) or any(key.startswith(prefix) for key in stored):
        return None
    if first.info["mismatched_keys"] or any(name.startswith(prefix) for name in first.missing):
        return None
    if first.model.base_model is first.model or not stored.keys().isdisjoint(_names_of(first)):
        return None  # what has a name of the whole model now is of the head
    choice = replace(
        first.choice, model_class=body, config=select_sub_config(first.choice.config, body)
    )
    second = load_again(first.files, choice)
    if not second.is_complete:
        # the body inside the whole model lacks nothing: it may be built without a pooler, say
        info = first.info | {"missing_keys": ()}
        second = replace(first, model=first.model.base_model, info=info)
    note = (
        f"the weights are those of {body.__name__}, without the head of "
        f"{type(first.model).__name__} that the configuration names; loaded as {body.__name__}"
    )
    return replace(second, notes=(note,))


def _names_of(loaded: LoadedWeights) -> dict[str, tuple[int, ...]]:
    return {name: tuple(value.shape) for name, value in loaded.model.state_dict().items()}


def _load_renamed(
    first: LoadedWeights, stored: Mapping[str, tuple[int, ...]], load_again: LoadAgain
) -> LoadedWeights:
    expected = _names_of(first)
    ways = find_renamings(stored, expected, first.missing)
    if len(ways) > 1:
        return _keep_ambiguous(first, [way.cut[0] for way in ways])
    if not ways:
        return first
    way = ways[0]
    tensors = _renamed_reader(first.files.tensors, way)
    shapes = {way.names.get(key, key): shape for key, shape in stored.items()}
    files = replace(
        first.files,
        tensors=tensors,
        shapes=lambda: shapes,
        state_dict=lambda: dict(tensors({})),
    )
    second = load_again(files, first.choice)
    if not second.is_complete:
        return first
    return replace(second, cut=way.cut, renamed=len(way.names))


def _keep_ambiguous(first: LoadedWeights, prefixes: list[str]) -> LoadedWeights:
    what = f"what the model lacks is stored {len(prefixes)} times, under {', '.join(prefixes)}"
    if first.missing.issuperset(name for name, _ in first.model.named_parameters()):
        raise LoadError(
            f"no tensor of the checkpoint has a name of {type(first.model).__name__}; {what}",
            "save the one that is meant under the model's own names",
        )
    return replace(first, notes=(f"{what}; none of them was chosen",))


def _renamed_reader(read_tensors: TensorReader, way: Renaming) -> TensorReader:
    """The reader under the model's names; `resident` tensors are known by these."""
    stored_names = {name: key for key, name in way.names.items()}

    def read_renamed(
        resident: Mapping[str, torch.Tensor],
    ) -> Iterator[tuple[str, torch.Tensor]]:
        stored: dict[str, Any] = {stored_names.get(n, n): v for n, v in resident.items()}
        for key, tensor in read_tensors(stored):
            yield way.names.get(key, key), tensor

    return read_renamed
