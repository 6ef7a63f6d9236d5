from __future__ import annotations

import pytest

from tests.rules.builders import evidence, norms, one, run_rule


def reducing(axes: tuple[int, ...], shape: tuple[int, ...], layers: int = 4, **given):
    return evidence(norms=norms(layers, axes=axes, shape=shape, **given))


@pytest.mark.parametrize(
    ("axes", "shape"),
    [
        ((-1,), (2, 16, 64)),
        ((-2,), (2, 16, 64)),  # tokens: the finding of ND107
        ((-3, -2, -1), (2, 64, 8, 8)),
        ((-1,), (64,)),  # one vector: there is no batch
        ((-1,), (2, 64)),
    ],
)
def test_statistics_of_one_case_are_silent(axes, shape) -> None:
    assert run_rule(reducing(axes, shape), "ND105") == ()


@pytest.mark.parametrize(
    ("axes", "shape", "kind"),
    [
        ((-3, -1), (2, 64, 16), "batchnorm"),
        ((-2,), (32, 64), "batchnorm"),
        ((-3,), (2, 16, 64), "layernorm"),
        ((-3, -2, -1), (2, 16, 64), "rmsnorm"),
    ],
)
def test_statistics_of_the_batch_are_a_warning(axes, shape, kind) -> None:
    finding = one(reducing(axes, shape, kind=kind), "ND105")
    assert (finding.severity, finding.value, len(finding.ids)) == ("warning", 4.0, 4)
    assert "layers 0-3 of layers" in finding.message and "--site" in finding.advice


def test_running_statistics_are_mentioned() -> None:
    seen = reducing((-3, -1), (2, 64, 16), kind="batchnorm", is_running=True)
    finding = one(seen, "ND105")
    assert (finding.severity, finding.value) == ("info", 4.0)
    assert "in training" in finding.message
