"""Where a layer's norms and scales stand: a catalogue of placements, for `theory.py`."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Wiring:
    """x <- stream(skip x + write(F(times read(x)))); read, write and stream are norms."""

    read: bool = False
    write: bool = False
    stream: bool = False
    skip: float = 1.0
    times: float = 1.0
    init: float = 1.0
    """By which the branch is larger than Xavier's initialisation makes it."""
    learned: float | None = None
    """What a learned scale on the branch starts at."""
    size: int | None = None
    """How many numbers that scale is; one per feature if None."""

    @property
    def is_open(self) -> bool:
        """Whether the stream leaves the layer without a norm, for a final norm to follow."""
        return (self.read or self.write) and not self.stream


PLACEMENTS: dict[str, Callable[[int, int], Wiring]] = {  # of the number of layers, and the layer
    "pre": lambda layers, layer: Wiring(read=True),
    "post": lambda layers, layer: Wiring(stream=True),
    "peri": lambda layers, layer: Wiring(read=True, write=True),
    "output-norm": lambda layers, layer: Wiring(write=True),
    "lns": lambda layers, layer: Wiring(read=True, times=(layer + 1) ** -0.5),
    "scaled-init": lambda layers, layer: Wiring(read=True, init=(2 * layers) ** -0.5),
    "layer-scale": lambda layers, layer: Wiring(read=True, learned=0.1),
    "deepnorm": lambda layers, layer: Wiring(
        stream=True, skip=(2 * layers) ** 0.25, init=(8 * layers) ** -0.5
    ),
    "keel": lambda layers, layer: (
        Wiring(read=True, stream=True, skip=2.0 * layers) if layer else Wiring(read=True)
    ),
    "mix": lambda layers, layer: Wiring(stream=True) if 4 * layer < layers else Wiring(read=True),
    "rezero": lambda layers, layer: Wiring(learned=0.0, size=1),
    "none": lambda layers, layer: Wiring(),
}
