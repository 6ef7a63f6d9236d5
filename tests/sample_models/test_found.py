"""normdiag finds in every sample model what its docstring says that it must find."""

from __future__ import annotations

import functools

import pytest

import normdiag
from normdiag.evidence.stream import AddMeasurement
from normdiag.measures import DEFAULT_MEASURES
from tests.sample_models.calls import factory

WITHOUT_BLOCKS = ("stream", "norms", "norm-jacobians", "gradients")
"""Block Jacobians take most of the time of a deep stack, and no docstring names one."""


@functools.cache
def report(target: str, measure: tuple[str, ...] = WITHOUT_BLOCKS) -> normdiag.Report:
    model, inputs = factory(target)()
    return normdiag.inspect(model, inputs=inputs, measure=measure)


def stream(target: str) -> dict[str, AddMeasurement]:
    return report(target).measurements.stream


@pytest.mark.parametrize(
    ("target", "stack"),
    [
        ("pre_norm:build", ("blocks", "pre", "layernorm", 48, 1, 1, "ln_f")),
        ("pre_norm:build_without_final_norm", ("blocks", "pre", "layernorm", 48, 1, 1, None)),
        ("pre_norm_shared:build", ("block", "pre", "layernorm", 48, 1, 1, "ln_f")),
        ("post_norm:build", ("layers", "post", "layernorm", 64, 1, 1, None)),
        ("rms_pre_norm:build", ("layers", "pre", "rmsnorm", 24, 1, 1, "norm")),
        ("sandwich:build", ("blocks", "sandwich", "rmsnorm", 24, 2, 1, "norm_f")),
        ("branch_output:build", ("blocks", "branch-output", "rmsnorm", 24, 1, 1, "norm_f")),
        ("parallel:build", ("blocks", "parallel-pre", "layernorm", 12, 1, 1, "ln_f")),
        ("no_norm:build", ("blocks", "none", None, 48, 0, 1, None)),
        ("batch_norm:build", ("blocks", "pre", "batchnorm", 12, 1, 1, "bn_f")),
        ("cancelling_add:build", ("blocks", "pre", "layernorm", 12, 1, 1, "ln_f")),
        ("dead_branch:build", ("blocks", "pre", "layernorm", 12, 1, 1, "ln_f")),
        ("scaled_branch:build", ("layers", "pre", "layernorm", 24, 2, 2, "ln_f")),
        ("shrinking_gain:build", ("blocks", "pre", "layernorm", 24, 1, 1, "ln_f")),
        ("tiny_embedding:build", ("blocks", "pre", "layernorm", 6, 1, 1, "ln_f")),
        ("dead_relu:build", ("blocks", "pre", "layernorm", 6, 1, 1, "ln_f")),
        ("massive_activation:build", ("blocks", "pre", "rmsnorm", 12, 1, 1, "norm_f")),
        ("nan_gain:build", ("blocks", "pre", "layernorm", 6, 1, 1, "ln_f")),
        ("overflowing_add:build", ("blocks", "pre", "layernorm", 6, 1, 1, "ln_f")),
        ("half_epsilon:build", ("blocks", "pre", "layernorm", 6, 1, 1, "ln_f")),
        ("unexplained_add:build_healthy", ("blocks", "pre", "layernorm", 6, 1, 1, "ln_f")),
        ("hidden_write:build", ("blocks", "pre", "layernorm", 6, 1, 1, "ln_f")),
        ("overwriting_branch:build", ("blocks", "pre", "layernorm", 12, 1, 1, "ln_f")),
        ("duplicate_layers:build", ("blocks", "pre", "layernorm", 10, 1, 1, "ln_f")),
        ("token_collapse:build", ("layers", "post", "layernorm", 24, 1, 1, None)),
        ("common_offset:build", ("blocks", "pre", "layernorm", 6, 1, 1, "ln_f")),
        ("outlier_channel:build", ("blocks", "pre", "rmsnorm", 6, 1, 1, "norm_f")),
    ],
)
def test_the_stack(target: str, stack: tuple[object, ...]) -> None:
    (found,) = report(target).architecture.stacks
    assert stack == (
        found.id,
        found.placement,
        found.norm_kind,
        found.layers,
        found.norms_per_layer,
        found.residual_adds_per_layer,
        found.final_norm,
    )
    adds = report(target).architecture.residual_adds
    assert len(adds) == found.layers * found.residual_adds_per_layer


FOUND: list[tuple[str, set[str]]] = [
    ("pre_norm:build", set()),
    ("pre_norm:build_without_final_norm", {"missing-final-norm"}),
    ("pre_norm_shared:build", set()),
    ("post_norm:build", {"deep-post-norm"}),
    ("rms_pre_norm:build", set()),
    ("sandwich:build", set()),
    ("branch_output:build", set()),
    ("parallel:build", set()),
    ("no_norm:build", {"geometric-growth"}),
    ("scaled_branch:build", set()),
    ("tiny_embedding:build", {"epsilon-dominates"}),
    ("tiny_embedding:build_healthy", set()),
    ("dead_relu:build", {"constant-input"}),
    ("dead_relu:build_healthy", set()),
    ("massive_activation:build", {"massive-activation"}),
    ("massive_activation:build_healthy", set()),
    ("nan_gain:build", {"non-finite-parameter"}),
    ("nan_gain:build_healthy", set()),
    ("overflowing_add:build", {"non-finite-activation"}),
    ("half_epsilon:build", {"epsilon-underflow"}),
    ("half_epsilon:build_written", {"epsilon-underflow"}),
    ("half_epsilon:build_healthy", {"unit-gain"}),  # as any model at initialisation
    ("unexplained_add:build", {"incomplete-trace"}),
    ("hidden_write:build", {"replay-mismatch"}),
    ("hidden_write:build_healthy", set()),
    ("cancelling_add:build", {"cancelling-add"}),
    ("cancelling_add:build_healthy", set()),
    ("dead_branch:build", {"silent-branch"}),
    ("dead_branch:build_healthy", set()),
    ("overwriting_branch:build", {"overwriting-branch"}),
    ("overwriting_branch:build_healthy", set()),
    ("duplicate_layers:build", {"duplicate-layer"}),
    ("duplicate_layers:build_healthy", set()),
    ("token_collapse:build", {"token-collapse"}),
    ("common_offset:build", {"mean-dominated-input"}),
    ("common_offset:build_healthy", set()),
    ("outlier_channel:build", {"outlier-channel"}),
    ("outlier_channel:build_healthy", set()),
]


@pytest.mark.parametrize(
    "measure",
    [WITHOUT_BLOCKS, pytest.param(DEFAULT_MEASURES, marks=pytest.mark.slow)],
    ids=["brief", "whole"],
)
@pytest.mark.parametrize(("target", "names"), FOUND)
def test_the_findings(target: str, names: set[str], measure: tuple[str, ...]) -> None:
    found = {finding.name for finding in report(target, measure).findings}
    assert found >= names
    if not names:
        assert found == set()


def test_each_run_of_the_shared_block_is_a_site() -> None:
    architecture = report("pre_norm_shared:build").architecture
    ids = {norm.id for norm in architecture.norms}
    assert ids == {"block.ln1", "ln_f", *(f"block.ln1@{k}" for k in range(1, 48))}
    assert {norm.calls for norm in architecture.norms if norm.id != "ln_f"} == {48}
    assert [add.layer for add in architecture.residual_adds] == list(range(48))


@pytest.mark.parametrize(
    ("target", "law"),
    [
        ("pre_norm:build", "additive"),
        ("sandwich:build", "additive"),
        ("no_norm:build", "geometric"),
    ],
)
def test_the_growth_law(target: str, law: str) -> None:
    (growth,) = report(target).measurements.growth.values()
    assert growth.law == law
    if law == "geometric":
        assert growth.rate == pytest.approx(1.15, abs=0.01)


def test_epsilon_is_found_where_no_attribute_names_it() -> None:
    norms = report("rms_pre_norm:build").architecture.norms
    assert [norm.eps for norm in norms] == pytest.approx([1e-6] * 25)


def test_a_norm_within_a_branch_is_inner() -> None:
    norms = report("dead_relu:build").architecture.norms
    assert [norm.id for norm in norms if norm.role == "inner"] == [
        f"blocks.{k}.ln2" for k in range(6)
    ]


def test_the_two_branches_are_one_write() -> None:
    adds = report("parallel:build").architecture.residual_adds
    assert {add.branches for add in adds} == {2}


def test_the_branch_scale() -> None:
    adds = report("scaled_branch:build").architecture.residual_adds
    assert {add.branch_scale.kind for add in adds} == {"constant"}
    assert [add.branch_scale.value for add in adds] == pytest.approx([48**-0.5] * 48)


def test_batch_norm_sees_its_running_variance() -> None:
    model, _ = factory("batch_norm:build")()
    seen = report("batch_norm:build").measurements.norms["blocks.3.bn"]
    variance = model.blocks[3].bn.running_var.double()
    assert seen.input_var.median == pytest.approx(variance.quantile(0.5).item())
    assert seen.input_var.max == pytest.approx(variance.max().item())


def test_the_cancelling_add() -> None:
    at = stream("cancelling_add:build")["blocks.6/add#0"]
    assert at.update_ratio.median == pytest.approx(1, abs=0.05)
    assert at.cosine.median < -0.99
    assert at.out_norm.mean < 0.2 * at.skip_norm.mean


def test_the_overwriting_branch() -> None:
    ratios = {id: add.update_ratio.median for id, add in stream("overwriting_branch:build").items()}
    assert ratios.pop("blocks.6/add#0") > 20
    assert max(ratios.values()) < 1


def test_the_duplicate_layers() -> None:
    found = report("duplicate_layers:build").measurements.duplicates
    assert found == {"blocks": ((2, 6), (3, 7), (4, 8), (5, 9))}


def test_tokens_collapse() -> None:
    cosines = [add.token_cosine or 0.0 for add in stream("token_collapse:build").values()]
    assert cosines[0] < 0.7
    assert all(cosine > 0.99 for cosine in cosines[12:])


def test_the_common_offset() -> None:
    seen = report("common_offset:build").measurements.norms
    assert min(seen[f"blocks.{k}.ln1"].mean_energy for k in range(6)) > 0.9


def test_the_outlier_channel() -> None:
    for seen in report("outlier_channel:build").measurements.norms.values():
        assert seen.dominant_channel == 7 and (seen.channel_share or 0) > 0.9


def test_the_dead_branch() -> None:
    ratios = {id: add.update_ratio.median for id, add in stream("dead_branch:build").items()}
    assert ratios.pop("blocks.8/add#0") < 1e-6
    assert min(ratios.values()) > 0.2


def test_the_shrinking_gain() -> None:
    norms = report("shrinking_gain:build").architecture.norms
    gains = [norm.gain.rms for norm in norms if norm.gain and norm.id != "ln_f"]
    assert gains == pytest.approx([0.8**depth for depth in range(24)])


def test_the_massive_activation() -> None:
    for depth, add in enumerate(stream("massive_activation:build").values()):
        assert (add.max_abs > 1000) == (depth >= 2)
        assert depth < 2 or (add.max_channel, add.max_token.position) == (7, 0)


def test_growth_leaves_the_first_position_out() -> None:
    (growth,) = report("massive_activation:build").measurements.growth.values()
    assert growth.total == pytest.approx(1.25, abs=0.03)


def test_where_the_first_bad_value_is() -> None:
    nan = report("nan_gain:build").measurements.first_nonfinite
    assert nan is not None and nan.site == "blocks.3.ln1"
    inf = report("overflowing_add:build").measurements.first_nonfinite
    assert inf is not None and inf.site == "blocks.3/add#0"
    assert inf.exact_max is not None and inf.exact_max > 65504


def test_the_epsilon_dominates_one_norm_only() -> None:
    (finding,) = [
        f for f in report("tiny_embedding:build").findings if f.name == "epsilon-dominates"
    ]
    assert finding.ids == ("blocks.0.ln1",)


def test_the_hidden_write_breaks_closure_there() -> None:
    closure = report("hidden_write:build").measurements.closure["blocks"]
    assert closure.max_rel_error > 0.01 and closure.layer in (3, 4)


def test_the_forgotten_skip_is_named() -> None:
    unexplained = report("unexplained_add:build").coverage.unexplained_adds
    assert [add.module for add in unexplained] == ["blocks.3"]
