from __future__ import annotations

from normdiag.evidence.subject import Loading
from normdiag.evidence.weights import StaticPass, TensorSummary
from tests.rules.builders import evidence, one, run_rule


def tensor(name: str, nonfinite: int, shape: tuple[int, ...] = (64,), zeros: int = 0, **given):
    elements = 1
    for size in shape:
        elements *= size
    return TensorSummary(
        name=name,
        shape=shape,
        dtype="F32",
        loaded_dtype="float32",
        nonfinite=nonfinite,
        zeros=zeros,
        elements=elements,
        max_abs=1.0,
        **given,
    )


def make_tensors(*noted: TensorSummary, mode: str = "run", unexpected: tuple[str, ...] = ()):
    total = sum(each.nonfinite for each in noted)
    weights = StaticPass(tensors=9, elements=999, nonfinite=total, dtypes={"F32": 9}, flagged=noted)
    loading = Loading(unexpected=unexpected)
    return evidence(subject={"mode": mode, "loading": loading}, weights=weights)


def test_sound_tensors_are_silent() -> None:
    assert run_rule(make_tensors(), "ND203") == ()
    assert run_rule(make_tensors(tensor("dead.weight", 0, zeros=64)), "ND203") == ()


def test_one_bad_element_is_named_with_its_index() -> None:
    finding = one(make_tensors(tensor("layers.2.norm.weight", 1, first_nonfinite=(7,))), "ND203")
    assert (finding.severity, finding.confidence, finding.value) == ("error", "high", 1.0)
    assert finding.ids == ("layers.2.norm.weight",)
    assert "layers.2.norm.weight 1 of 64, first at [7]" in finding.message


def test_every_tensor_is_listed_worst_first() -> None:
    tensors = [tensor(f"t{k}", k + 1, first_nonfinite=(0,)) for k in range(8)]
    finding = one(make_tensors(*tensors), "ND203")
    assert finding.ids == tuple(f"t{k}" for k in reversed(range(8)))
    assert "36 elements of 8 tensors" in finding.message and "and 3 more" in finding.message


def test_no_forward_is_needed() -> None:
    assert one(make_tensors(tensor("w", 1), mode="weights-only"), "ND203").severity == "error"


def test_a_causal_mask_is_only_mentioned() -> None:
    mask = tensor("attn.mask", 496, shape=(32, 32), zeros=528)
    finding = one(make_tensors(mask), "ND203")
    assert (finding.severity, finding.confidence) == ("info", "low")
    assert finding.ids == ("attn.mask",)


def test_what_is_no_mask_is_an_error_beside_it() -> None:
    seen = make_tensors(
        tensor("attn.mask", 496, shape=(32, 32), zeros=528),
        tensor("fc.weight", 1024, shape=(32, 32)),
        tensor("norm.weight", 4, shape=(8,), zeros=4),
    )
    error, info = run_rule(seen, "ND203")
    assert error.ids == ("fc.weight", "norm.weight") and info.ids == ("attn.mask",)


def test_what_the_model_does_not_have_does_no_harm() -> None:
    left_over, gain = tensor("norm_final.weight", 1), tensor("norm.weight", 2)
    unused = make_tensors(left_over, unexpected=("norm_final.weight",))
    finding = one(unused, "ND203")
    assert (finding.severity, finding.ids) == ("info", ("norm_final.weight",))
    assert "1 element of 1 tensor that the model does not have" in finding.message
    both = run_rule(make_tensors(left_over, gain, unexpected=("norm_final.weight",)), "ND203")
    assert sorted((each.severity, each.ids) for each in both) == [
        ("error", ("norm.weight",)),
        ("info", ("norm_final.weight",)),
    ]


def test_a_single_infinity_is_a_limit_and_a_nan_is_none() -> None:
    limit = tensor("layers.0.input_min", 1, shape=(), nans=0)
    finding = one(make_tensors(limit), "ND203")
    assert (finding.severity, finding.ids) == ("info", ("layers.0.input_min",))
    for broken in (tensor("a", 1, shape=(), nans=1), tensor("b", 1, shape=()), tensor("c", 1)):
        assert one(make_tensors(broken), "ND203").severity == "error"
