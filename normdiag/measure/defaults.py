"""Settings absent from the configuration file that decide the structure, found by flipping them.

A setting counts where the model has the same tensors with another value of it, so that nothing in
the checkpoint could tell, and the data flow is another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import zip_longest

from torch import nn

from normdiag.errors import NormdiagError
from normdiag.evidence.architecture import Architecture
from normdiag.evidence.coverage import SkippedMeasurement
from normdiag.evidence.subject import OmittedSetting
from normdiag.graph import Graph
from normdiag.inputs.batch import Batch
from normdiag.inputs.truncation import truncate_batch
from normdiag.loading.interface import LoadedModel
from normdiag.loading.omitted_settings import build_on_meta, flip_setting, omitted_settings
from normdiag.measure.passes.meta_forward import run_meta_forward
from normdiag.measures import expand_measures
from normdiag.progress import Progress
from normdiag.structure.algebraic_forms import scalar_value

MAX_FORWARDS = 24
"""Forwards on the meta device that are spent at most."""
SHORT_LAYERS = 2
"""Layers of the models that are built: layers are alike, and two show how they follow each other.
Models whose other settings do not allow it are built whole."""
_POSITIONS = 8


DefaultsResult = tuple[OmittedSetting, ...] | SkippedMeasurement | None
"""The settings that decide the structure; why that is unknown; None where it was not measured."""


def measure_defaults(
    loaded: LoadedModel,
    batch: Batch,
    architecture: Architecture,
    measures: Iterable[str],
    progress: Progress,
) -> DefaultsResult:
    """Find the omitted settings that decide the structure, where requested or cheap."""
    if loaded.mode != "run":
        return None
    settings = find_omitted_settings(loaded)
    if not settings:
        return ()
    is_requested = "defaults" in expand_measures(measures)
    if not is_requested and not costs_less_than_forward(len(settings), architecture):
        return None
    progress.start_stage("flipping omitted settings")
    deciding = find_deciding_defaults(loaded, batch, settings)
    progress.finish_stage()
    return None if isinstance(deciding, SkippedMeasurement) and not is_requested else deciding


def find_omitted_settings(loaded: LoadedModel) -> dict[str, bool | float]:
    """Find the settings that config.json does not hold; none where there is no such file."""
    if not loaded.config_fields or loaded.config is None:
        return {}
    return omitted_settings(loaded.config, loaded.config_fields)


def costs_less_than_forward(settings: int, architecture: Architecture) -> bool:
    """Whether flipping so many settings takes fewer operations than one forward of the model.

    Halving n settings takes at most 2 n forwards on the meta device, each of two layers and of a
    model built for it, which takes about as many operations again. The model's own forward takes
    those of all its layers, and arithmetic beside. A model of several stacks is not counted on:
    one setting does not shorten all of them.
    """
    forwards = min(2 * settings, MAX_FORWARDS)
    layers = architecture.stacks[0].layers if len(architecture.stacks) == 1 else 0
    return 2 * forwards * SHORT_LAYERS < layers


def find_deciding_defaults(
    loaded: LoadedModel, batch: Batch, settings: Mapping[str, bool | float]
) -> tuple[OmittedSetting, ...] | SkippedMeasurement:
    """Find which of `settings` change what is computed on the stream; or why that is unknown."""
    why = ""
    for common in ({"num_hidden_layers": SHORT_LAYERS}, {}):
        try:
            probe = _DefaultProbe(loaded.model, truncate_batch(batch, _POSITIONS), settings, common)
        except NormdiagError as error:  # it cannot be built from its configuration, or needs values
            why = error.what
            continue
        return tuple(probe.iterate_deciding(list(settings)))
    return SkippedMeasurement(what="defaults", why=why)


class _DefaultProbe:
    """Flips all settings at once, then halves of them: most decide nothing."""

    def __init__(
        self,
        model: nn.Module,
        batch: Batch,
        settings: Mapping[str, bool | float],
        common: Mapping[str, int],
    ) -> None:
        """Raises LoadError or RunError where the model as it is cannot be followed."""
        self._model, self._batch = model, batch
        self._settings, self._common = settings, common
        self._forwards_left = MAX_FORWARDS
        self._unchanged = self._run_flipped([])

    def iterate_deciding(self, names: list[str]) -> Iterator[OmittedSetting]:
        """Yield those of `names` that decide something."""
        if self._forwards_left == 0:
            return
        try:
            flipped = self._run_flipped(names)
        except NormdiagError:  # no such model, or none that runs
            effect, is_alike = None, False
        else:
            is_alike = flipped.tensors == self._unchanged.tensors
            effect = self._unchanged.describe_difference(flipped)
        if is_alike and effect is None:
            return
        if len(names) > 1:
            half = len(names) // 2
            yield from self.iterate_deciding(names[:half])
            yield from self.iterate_deciding(names[half:])
        elif is_alike and effect is not None:
            value = self._settings[names[0]]
            yield OmittedSetting(
                setting=names[0],
                value=str(value),
                alternative=str(flip_setting(value)),
                effect=effect[0],
                alternative_effect=effect[1],
            )

    def _run_flipped(self, names: list[str]) -> _MetaModel:
        self._forwards_left -= 1
        changes = {name: flip_setting(self._settings[name]) for name in names}
        return _MetaModel.run_model(
            build_on_meta(self._model, {**self._common, **changes}), self._batch
        )


class _MetaModel:
    """A model on the meta device: its tensors and the structure of its forward."""

    def __init__(
        self, tensors: dict[str, tuple[int, ...]], architecture: Architecture, graph: Graph
    ) -> None:
        self.tensors = tensors
        self._architecture = architecture
        self._scales = _count_scales(graph, {stack.width for stack in architecture.stacks})

    @classmethod
    def run_model(cls, model: nn.Module, batch: Batch) -> _MetaModel:
        """Run a forward of `model`. Raises RunError where it needs values."""
        tensors = {name: tuple(value.shape) for name, value in model.state_dict().items()}
        forward = run_meta_forward(model, batch)
        return cls(tensors, forward.sites.architecture, forward.graph)

    def describe_difference(self, other: _MetaModel) -> tuple[str, str] | None:
        """Return the first difference, described for both; None where there is none."""
        for describe in (_describe_placements, _describe_epsilons):
            lines = describe(self._architecture), describe(other._architecture)
            for mine, theirs in zip_longest(*lines, fillvalue="nothing"):
                if mine != theirs:
                    return mine, theirs
        here, there = self._scales - other._scales, other._scales - self._scales
        return (_describe_scale(here), _describe_scale(there)) if here or there else None


def _describe_placements(architecture: Architecture) -> list[str]:
    return [
        f"{stack.id} is {stack.placement}, {stack.drawing}"
        + (f", final norm {stack.final_norm}" if stack.final_norm else ", no final norm")
        for stack in architecture.stacks
    ]


def _describe_epsilons(architecture: Architecture) -> list[str]:
    return [f"epsilon {norm.eps} at {norm.id}" for norm in architecture.norms]


def _count_scales(graph: Graph, widths: set[int]) -> Counter[tuple[str, float]]:
    """Count multiplications of stream-wide data by a number other than 1, by module and number."""
    scales: Counter[tuple[str, float]] = Counter()
    for node in graph:
        if node.op in ("mul", "div") and node.is_data and node.shape[-1:]:
            factor = scalar_value(node.args[1])
            if factor is not None and factor != 1.0 and node.shape[-1] in widths:
                scales[node.frame.path, 1 / factor if node.op == "div" else factor] += 1
    return scales


def _describe_scale(scales: Counter[tuple[str, float]]) -> str:
    if not scales:
        return "no scale"
    module, factor = next(iter(scales))
    return f"a scale of {factor:g} in {module or 'the model'}"
