"""What a report is about: the model as loaded, and what was run through it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from math import prod

import torch
import transformers

from normdiag import __version__
from normdiag.evidence.subject import Loading, Probe, Subject, Versions
from normdiag.evidence.weights import StaticPass
from normdiag.loading.interface import Runnable, ShapesOnly, WeightsOnly
from normdiag.measure.passes.forward import Pass
from normdiag.structure.forms import norm_parameter_names


@dataclass(frozen=True, slots=True)
class Named:
    """How the target was named, and what its weights are."""

    target: str
    digest: str | None
    command: str | None


def subject_of(
    loaded: Runnable, named: Named, probe: Probe, special: tuple[str, ...], done: Pass
) -> Subject:
    """A model that was run."""
    if loaded.notes:
        notes = (probe.note, *loaded.notes)
        probe = replace(probe, note="; ".join(n for n in notes if n))
    parameters = list(loaded.model.parameters())
    dtypes = Counter(str(p.dtype).removeprefix("torch.") for p in parameters)
    return Subject(
        target=named.target,
        model_type=loaded.model_type,
        class_=loaded.class_name,
        parameters=sum(p.numel() for p in parameters),
        dtype=dtypes.most_common(1)[0][0] if dtypes else None,
        device=str(parameters[0].device) if parameters else "cpu",
        probe=probe,
        versions=_versions(),
        weights_digest=named.digest,
        command=named.command,
        special_tokens=special,
        loading=_with_norm_parameters(loaded.loading, done),
        mode=loaded.mode,
    )


def subject_of_weights(loaded: WeightsOnly, named: Named, weights: StaticPass) -> Subject:
    """A checkpoint whose tensors alone were read."""
    return Subject(
        target=named.target,
        model_type=loaded.model_type,
        class_=loaded.class_name,
        parameters=weights.elements,
        dtype=max(weights.dtypes, key=lambda d: weights.dtypes[d], default=None),
        device="cpu",
        probe=Probe(kind="none", sequences=0, tokens=0, note="; ".join(loaded.notes) or None),
        versions=_versions(),
        weights_digest=named.digest,
        command=named.command,
        loading=loaded.loading,
        mode=loaded.mode,
    )


def subject_of_shapes(loaded: ShapesOnly, named: Named) -> Subject:
    """A checkpoint of which names and shapes alone were read."""
    return Subject(
        target=named.target,
        model_type=None,
        class_=None,
        parameters=sum(prod(shape) for shape in loaded.shapes.values()),
        dtype=max(loaded.dtypes, key=lambda d: loaded.dtypes[d], default=None),
        device="cpu",
        probe=Probe(kind="none", sequences=0, tokens=0, note="; ".join(loaded.notes) or None),
        versions=_versions(),
        command=named.command,
        mode=loaded.mode,
    )


def _with_norm_parameters(loading: Loading, done: Pass) -> Loading:
    """Which of the parameters that did not match are gains or biases of norms, by the graph."""
    odd = {*loading.missing, *loading.mismatched}
    if not odd:
        return loading
    of_norms = norm_parameter_names(done.reading.norms)
    return replace(
        loading,
        norm_parameters=tuple(sorted((odd & of_norms) | set(loading.norm_parameters))),
    )


def _versions() -> Versions:
    return Versions(
        normdiag=__version__, torch=torch.__version__, transformers=transformers.__version__
    )
