from __future__ import annotations

import pytest

from tests.rules.builders import evidence, make_measurement, norms, one, run_rule


def make_evidence(
    eps: float | None,
    dtype: str | None = "float32",
    kind: str = "layernorm",
    eps_dtype: str | None = None,
):
    sites = norms(5, eps=eps, kind=kind, eps_dtype=eps_dtype)
    inputs = {norm.id: make_measurement(1e-5) for norm in sites}
    return evidence(subject={"dtype": dtype}, norms=sites, norm_inputs=inputs)


@pytest.mark.parametrize(
    ("eps", "dtype"),
    [
        (1e-12, "float16"),
        (2.0**-25, "float16"),
        (0.0, "float16"),
        (0.0, "float32"),
        (0.0, "bfloat16"),
        (0.0, None),
    ],
)
def test_an_epsilon_that_is_zero_in_the_format(eps: float, dtype: str | None) -> None:
    finding = one(make_evidence(eps, dtype, eps_dtype=dtype), "ND704")
    assert finding.severity == "warning" and finding.value == eps
    assert len(finding.ids) == 5 and "layers 0-4 of layers" in finding.message


@pytest.mark.parametrize(
    ("eps", "dtype"),
    [
        (1e-5, "float16"),
        (1e-7, "float16"),
        (1e-12, "float32"),
        (1e-12, "bfloat16"),
        (1e-12, "torch.bfloat16"),
        (None, "float16"),
    ],
)
def test_an_epsilon_that_the_format_holds(eps: float | None, dtype: str) -> None:
    assert run_rule(make_evidence(eps, dtype), "ND704") == ()


def test_a_fused_norm_keeps_an_epsilon_that_the_format_has_not() -> None:
    finding = one(make_evidence(1e-12, "float16"), "ND704")
    assert (finding.severity, finding.value, finding.threshold) == ("info", 1e-12, 2.0**-25)
    assert "one fused operation, which PyTorch computes in float32" in finding.message


def test_no_epsilon_at_all_is_a_warning_in_a_fused_norm_as_well() -> None:
    assert one(make_evidence(0.0, "float16"), "ND704").severity == "warning"


def test_the_format_is_that_of_the_addition() -> None:
    assert run_rule(make_evidence(1e-12, "float16", eps_dtype="float32"), "ND704") == ()
    finding = one(make_evidence(1e-12, "float32", eps_dtype="float16"), "ND704")
    assert finding.severity == "warning" and "rounds to 0 in float16" in finding.message


@pytest.mark.parametrize("kind", ["batchnorm", "l2norm", "dyt", "other"])
def test_norms_whose_bound_lies_elsewhere(kind: str) -> None:
    assert run_rule(make_evidence(0.0, "float16", kind), "ND704") == ()


def test_rounding_is_explained() -> None:
    message = one(make_evidence(1e-12, "float16", eps_dtype="float16"), "ND704").message
    assert "epsilon is 1e-12, which rounds to 0 in float16" in message
    assert "epsilon is 0, at 5 norms" in one(make_evidence(0.0), "ND704").message


def test_the_bound_agrees_with_the_format() -> None:
    numpy = pytest.importorskip("numpy")
    assert numpy.float16(2.0**-25) == 0 < numpy.float16(2.0**-25 * 1.001)
    assert numpy.float32(2.0**-150) == 0 < numpy.float32(2.0**-150 * 1.001)
