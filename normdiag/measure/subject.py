"""The subject of a report: the model as loaded, and the inputs that it was run on."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from math import prod

import torch
import transformers

from normdiag import __version__
from normdiag.evidence.subject import InputSummary, Loading, Subject, Versions
from normdiag.evidence.weights import StaticPass
from normdiag.inputs.model_inputs import ModelInputs
from normdiag.loading.interface import CheckpointTensors, LoadedModel, TensorShapes
from normdiag.loading.offloaded_weights import list_parameters, list_run_devices
from normdiag.measure.passes.forward_structure import ForwardStructure
from normdiag.structure.algebraic_forms import norm_parameter_names


@dataclass(frozen=True, slots=True)
class TargetName:
    """The target as the user named it, the digest of its weights and the command line."""

    target: str
    digest: str | None
    command: str | None


def describe_model(
    loaded: LoadedModel, name: TargetName, inputs: ModelInputs, structure: ForwardStructure
) -> Subject:
    """Describe a model that was run, and what it was run on."""
    notes = (inputs.summary.note, *loaded.notes)
    summary = replace(inputs.summary, note="; ".join(note for note in notes if note) or None)
    parameters = list_parameters(loaded.model)
    dtypes = Counter(str(p.dtype).removeprefix("torch.") for p in parameters)
    return Subject(
        target=name.target,
        model_type=loaded.model_type,
        class_=loaded.class_name,
        parameters=sum(p.numel() for p in parameters),
        dtype=dtypes.most_common(1)[0][0] if dtypes else None,
        device=", ".join(list_run_devices(loaded.model)) or str(_first_device(parameters)),
        probe=summary,
        versions=_installed_versions(),
        weights_digest=name.digest,
        command=name.command,
        special_tokens=inputs.special_tokens,
        loading=_name_norm_parameters(loaded.loading, structure),
        mode=loaded.mode,
    )


def describe_checkpoint(
    loaded: CheckpointTensors, name: TargetName, weights: StaticPass
) -> Subject:
    """Describe a checkpoint whose tensors alone were read."""
    return Subject(
        target=name.target,
        model_type=loaded.model_type,
        class_=loaded.class_name,
        parameters=weights.elements,
        dtype=max(weights.dtypes, key=lambda d: weights.dtypes[d], default=None),
        device="cpu",
        probe=InputSummary(
            kind="none", sequences=0, tokens=0, note="; ".join(loaded.notes) or None
        ),
        versions=_installed_versions(),
        weights_digest=name.digest,
        command=name.command,
        loading=loaded.loading,
        mode=loaded.mode,
    )


def describe_shapes(loaded: TensorShapes, name: TargetName) -> Subject:
    """Describe a checkpoint of which names and shapes alone were read."""
    return Subject(
        target=name.target,
        model_type=None,
        class_=None,
        parameters=sum(prod(shape) for shape in loaded.shapes.values()),
        dtype=max(loaded.dtypes, key=lambda d: loaded.dtypes[d], default=None),
        device="cpu",
        probe=InputSummary(
            kind="none", sequences=0, tokens=0, note="; ".join(loaded.notes) or None
        ),
        versions=_installed_versions(),
        command=name.command,
        mode=loaded.mode,
    )


def _first_device(parameters: list[torch.nn.Parameter]) -> torch.device:
    return parameters[0].device if parameters else torch.device("cpu")


def _name_norm_parameters(loading: Loading, done: ForwardStructure) -> Loading:
    """Which of the parameters that did not match are gains or biases of norms, by the graph."""
    odd = {*loading.missing, *loading.mismatched}
    if not odd:
        return loading
    of_norms = norm_parameter_names(done.reader.detected_norms)
    return replace(
        loading,
        norm_parameters=tuple(sorted((odd & of_norms) | set(loading.norm_parameters))),
    )


def _installed_versions() -> Versions:
    return Versions(
        normdiag=__version__, torch=torch.__version__, transformers=transformers.__version__
    )
