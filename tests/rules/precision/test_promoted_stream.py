from __future__ import annotations

from dataclasses import replace

from tests import factories
from tests.rules.builders import evidence, make_adds, one, run_rule, stack


def formats(*dtypes: str, sizes: dict[int, float] | None = None):
    """The format of each add's sum; layer -> its largest |y|, 10 elsewhere."""
    made = tuple(
        replace(add, dtype=dtype) for add, dtype in zip(make_adds(len(dtypes)), dtypes, strict=True)
    )
    stream = {
        add.id: replace(factories.add_measurement(), max_abs=(sizes or {}).get(add.layer, 10.0))
        for add in made
    }
    return evidence(adds=made, stacks=(stack(len(dtypes)),), stream=stream)


def test_one_format_is_silent() -> None:
    for dtype in ("float16", "bfloat16", "float32"):
        assert run_rule(formats(*[dtype] * 4, sizes={2: 1e6}), "ND706") == ()
    assert run_rule(formats("float32", "float16"), "ND706") == ()


def test_a_switch_that_fits_is_mentioned() -> None:
    finding = one(formats("float16", "float32", "float32", sizes={2: 65504.0}), "ND706")
    assert (finding.severity, finding.value, finding.threshold) == ("info", 65504.0, 65504.0)
    assert finding.ids == ("layers.1/add#0",)
    assert "float16 up to layers.0/add#0 and float32 from layers.1/add#0 on" in finding.message


def test_a_switch_that_hides_an_overflow_is_an_error() -> None:
    seen = formats("float16", *["float32"] * 4, sizes={2: 83654.0, 3: 111715.0})
    finding = one(seen, "ND706")
    assert (finding.severity, finding.value) == ("error", 111715.0)
    assert finding.ids == ("layers.1/add#0", "layers.2/add#0")
    assert "max |y| is 1.12e5 at layers.3/add#0 and exceeds 65504" in finding.message
    assert "the largest float16, from layers.2/add#0" in finding.message


def test_bfloat16_has_room() -> None:
    assert one(formats("bfloat16", "float32", sizes={1: 1e30}), "ND706").severity == "info"
