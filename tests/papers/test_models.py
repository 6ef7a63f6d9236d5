"""What transformers' own models are: T23, the facts beside the placement, and T24.

The placement of every family is in tests/structure/test_families.py; here are those facts of the
table's models that are not placements: scales on skip and branch, norms per add, inner norms.
"""

from __future__ import annotations

from functools import cache

import pytest
import torch

import normdiag
from normdiag.evidence.architecture import Architecture
from tests.structure.families.family import families
from tests.structure.structures import add_noise, architecture

FAMILIES = families("a_to_l") | families("m_to_z")


@cache
def measured_rates(family: str) -> Architecture:
    model, inputs = FAMILIES[family].build()
    return architecture(add_noise(model), inputs)


@pytest.mark.parametrize(
    ("placement", "names"),
    [
        ("sandwich", "gemma2 gemma3_text glm4"),
        ("branch-output", "olmo2 olmo3 exaone4 swinv2"),
        ("post", "bert bart opt@post"),
        ("parallel-pre", "cohere gptj gpt_neox"),
        ("normed-skip", "bloom@residual_after_norm minimax"),
        ("pre", "granite@residual_multiplier dinov2 doge kosmos-2 bitnet"),
    ],
)
def test_t23_placement(placement: str, names: str) -> None:
    """Input and output norm; output norm only; norm behind the sum; the skip is a norm's output."""
    for name in names.split():
        assert {stack.placement for stack in measured_rates(name).stacks} == {placement}, name


@pytest.mark.parametrize(("name", "norms"), [("cohere", 1), ("gptj", 1), ("gpt_neox", 2)])
def test_t23_norms_of_a_parallel_add(name: str, norms: int) -> None:
    for add in measured_rates(name).residual_adds:
        assert (add.branches, len(add.input_norms)) == (2, norms)


@pytest.mark.parametrize(
    ("name", "side", "kind", "is_vector"),
    [
        ("granite@residual_multiplier", "branch_scale", "constant", False),
        ("dinov2", "branch_scale", "learned", True),
        ("doge", "skip_scale", "learned", True),
    ],
)
def test_t23_scales(name: str, side: str, kind: str, is_vector: bool) -> None:
    other = {"branch_scale": "skip_scale", "skip_scale": "branch_scale"}[side]
    for add in measured_rates(name).residual_adds:
        scale = getattr(add, side)
        assert (scale.kind, getattr(add, other).kind) == (kind, "none")
        assert (scale.rms is not None, scale.value is not None) == (is_vector, not is_vector)


@pytest.mark.parametrize("name", ["kosmos-2", "bitnet"])
def test_t23_norms_inside_the_branch(name: str) -> None:
    model = measured_rates(name)
    text = next(s.id for s in model.stacks if "text" in s.id or len(model.stacks) == 1)
    assert all(len(a.inner_norms) == 1 for a in model.residual_adds if a.stack == text)


@pytest.mark.parametrize("name", ["gpt2", "olmo2"])
def test_t24_the_stream_ends_before_the_final_norm(name: str) -> None:
    """`hidden_states[-1]` is normed (q = 1, less epsilon's share); the stream ends before that."""
    model, inputs = FAMILIES[name].build()
    seen = []
    report = normdiag.inspect(model, inputs=inputs, measure=("stream",))
    (stack,) = report.architecture.stacks
    model.get_submodule(stack.final_norm).register_forward_pre_hook(lambda _, x: seen.append(x[0]))
    with torch.no_grad():
        states = model(**inputs, output_hidden_states=True).hidden_states
    assert states[-1].square().mean() == pytest.approx(1.0, abs=0.02)
    last = list(report.measurements.stream.values())[-1].out_norm.mean
    assert last == pytest.approx(float(seen[0].norm(dim=-1).mean()), rel=1e-5)
    assert last != pytest.approx(float(states[-1].norm(dim=-1).mean()), rel=0.1)
