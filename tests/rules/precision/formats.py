"""Evidence of what a number format would do, with one thing in it."""

from __future__ import annotations

from normdiag.evidence.evidence import Evidence
from normdiag.evidence.precision import FormatHeadroom, Precision
from normdiag.evidence.weights import StaticPass
from tests.rules.builders import evidence, make_adds, norms, stack

LARGEST = {"float16": 65504.0, "bfloat16": 3.3895313892515355e38}


def make_evidence(
    *, run: str = "float32", stored: str = "float32", half: dict | None = None, **given
) -> Evidence:
    """Eight layers, one norm and one add each; `half` are fields of the 16-bit formats."""
    empty = {
        "headroom": None,
        "headroom_site": None,
        "square_headroom": None,
        "square_headroom_site": None,
        "absorbed_updates": {},
    }
    formats = {
        name: FormatHeadroom(**{**empty, "largest": largest, **(half or {})})
        for name, largest in LARGEST.items()
    }
    measurements = {k: given.pop(k) for k in ("first_nonfinite",) if k in given}
    weights = StaticPass(tensors=4, elements=9, nonfinite=0, dtypes={stored: 4}, flagged=())
    return evidence(
        subject={"dtype": run},
        norms=norms(8),
        adds=make_adds(8),
        stacks=(stack(8),),
        precision=Precision(formats=formats, **given),
        weights=weights,
        **measurements,
    )


def values_at(*layers: int, value: float, kind: str = "add#0") -> dict[str, float]:
    """The same value at the adds of some layers."""
    return {f"layers.{layer}/{kind}": value for layer in layers}
