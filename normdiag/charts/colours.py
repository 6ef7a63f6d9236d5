"""Colours that readers with any form of colour blindness tell apart, on white and on black.

The palette is that of Okabe and Ito 2008 (https://jfly.uni-koeln.de/color/) without its black,
which a dark page swallows, and without its yellow, which a white one does. Heat maps use viridis.
"""

from __future__ import annotations

BLUE = "#0072B2"
VERMILLION = "#D55E00"
GREEN = "#009E73"
PURPLE = "#CC79A7"
ORANGE = "#E69F00"
SKY = "#56B4E9"

THRESHOLD = VERMILLION
"""Of the lines at which rules fire."""
REFERENCE = "#888888"
"""Of what a healthy model is expected to show: grey, at least 3 : 1 on white and on black."""

VIRIDIS = (
    (68, 1, 84),
    (72, 40, 120),
    (62, 74, 137),
    (49, 104, 142),
    (38, 130, 142),
    (31, 158, 137),
    (53, 183, 121),
    (109, 205, 89),
    (180, 222, 44),
    (253, 231, 37),
)
"""Ten steps of matplotlib's viridis (van der Walt and Smith 2015), dark to bright."""
NOT_FINITE = (213, 94, 0)
"""Of values of a heat map that are not finite: vermillion, which viridis does not have."""


def interpolate_viridis(position: float) -> tuple[int, int, int]:
    """Return the colour at a relative position from 0 to 1."""
    scaled = min(max(position, 0.0), 1.0) * (len(VIRIDIS) - 1)
    step = min(int(scaled), len(VIRIDIS) - 2)
    part = scaled - step
    low, high = VIRIDIS[step], VIRIDIS[step + 1]
    red, green, blue = (round(a + part * (b - a)) for a, b in zip(low, high, strict=True))
    return red, green, blue
