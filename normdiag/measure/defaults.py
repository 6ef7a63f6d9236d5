"""Which settings that the configuration file leaves out decide the structure: they are turned.

A setting counts where the model has the same tensors with another value of it, so that nothing in
the checkpoint could tell, and the data flow is another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import zip_longest

from torch import nn

from normdiag.errors import NormdiagError
from normdiag.evidence.architecture import Architecture
from normdiag.evidence.subject import Defaulted
from normdiag.graph import Graph
from normdiag.inputs.batch import Batch
from normdiag.inputs.truncation import shortened
from normdiag.loading.interface import Runnable
from normdiag.loading.omitted_settings import built_with, left_out, turned
from normdiag.measure.passes.meta_forward import described, run_without_values
from normdiag.structure.forms import scalar_value

MOST = 24
"""Forwards without values that are spent on it at most."""
_POSITIONS = 8
_SHORT = {"num_hidden_layers": 2}
"""All layers are made alike, so two show what all do; models that are not so are built whole."""


def deciding_defaults(loaded: Runnable, batch: Batch) -> tuple[Defaulted, ...]:
    """The settings that config.json leaves out and that change what is computed on the stream."""
    if not loaded.written or loaded.config is None:
        return ()
    settings = left_out(loaded.config, loaded.written)
    if not settings:
        return ()
    for common in (_SHORT, {}):
        try:
            turning = _Turning(loaded.model, shortened(batch, _POSITIONS), settings, common)
        except NormdiagError:  # it cannot be built from its configuration, or needs values
            continue
        return tuple(turning.deciding(list(settings)))
    return ()


class _Turning:
    """Settings turned together, then by halves: most decide nothing, and one forward says so."""

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
        self._left = MOST
        self._as_is = self._seen([])

    def deciding(self, names: list[str]) -> Iterator[Defaulted]:
        """Those of `names` that decide something."""
        if self._left == 0:
            return
        try:
            changed = self._seen(names)
        except NormdiagError:  # no such model, or none that runs
            effect, is_alike = None, False
        else:
            is_alike = changed.tensors == self._as_is.tensors
            effect = self._as_is.difference(changed)
        if is_alike and effect is None:
            return
        if len(names) > 1:
            half = len(names) // 2
            yield from self.deciding(names[:half])
            yield from self.deciding(names[half:])
        elif is_alike and effect is not None:
            value = self._settings[names[0]]
            yield Defaulted(
                setting=names[0],
                value=str(value),
                other=str(turned(value)),
                effect=effect[0],
                instead=effect[1],
            )

    def _seen(self, names: list[str]) -> _Seen:
        self._left -= 1
        changes = {name: turned(self._settings[name]) for name in names}
        return _Seen.of(built_with(self._model, {**self._common, **changes}), self._batch)


class _Seen:
    """A model without values: its tensors and what its forward does."""

    def __init__(
        self, tensors: dict[str, tuple[int, ...]], built: Architecture, graph: Graph
    ) -> None:
        self.tensors = tensors
        self._built = built
        self._scales = _scales(graph, {stack.width for stack in built.stacks})

    @classmethod
    def of(cls, model: nn.Module, batch: Batch) -> _Seen:
        """Raises RunError where its forward needs values."""
        tensors = {name: tuple(value.shape) for name, value in model.state_dict().items()}
        done = run_without_values(model, batch)
        return cls(tensors, described(done).architecture, done.graph)

    def difference(self, other: _Seen) -> tuple[str, str] | None:
        """What is so here, and what is so there: the first that differs."""
        for told in (_placements, _epsilons):
            pairs = zip_longest(told(self._built), told(other._built), fillvalue="nothing")
            for a, b in pairs:
                if a != b:
                    return a, b
        here, there = self._scales - other._scales, other._scales - self._scales
        return (_scaled(here), _scaled(there)) if here or there else None


def _placements(built: Architecture) -> list[str]:
    return [
        f"{stack.id} is {stack.placement}, {stack.drawing}"
        + (f", final norm {stack.final_norm}" if stack.final_norm else ", no final norm")
        for stack in built.stacks
    ]


def _epsilons(built: Architecture) -> list[str]:
    return [f"epsilon {norm.eps} at {norm.id}" for norm in built.norms]


def _scales(graph: Graph, widths: set[int]) -> Counter[tuple[str, float]]:
    """Where data as wide as a stream is multiplied by a number other than 1, and by which."""
    found: Counter[tuple[str, float]] = Counter()
    for node in graph:
        if node.op in ("mul", "div") and node.is_data and node.shape[-1:]:
            times = scalar_value(node.args[1])
            if times is not None and times != 1.0 and node.shape[-1] in widths:
                found[node.frame.path, 1 / times if node.op == "div" else times] += 1
    return found


def _scaled(scales: Counter[tuple[str, float]]) -> str:
    if not scales:
        return "no scale"
    module, times = next(iter(scales))
    return f"a scale of {times:g} in {module or 'the model'}"
