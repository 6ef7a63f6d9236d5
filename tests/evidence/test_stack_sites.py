"""Sites of one stack, and the ids of its layers."""

from __future__ import annotations

from normdiag.evidence.architecture import Architecture, layer_id
from tests.rules.builders import make_adds, norms, stack


def test_sites_of_a_stack_keep_the_order_of_the_forward() -> None:
    first, second = make_adds(2, "encoder"), make_adds(3, "decoder")
    mixed = (first[0], second[0], first[1], *second[1:])
    architecture = Architecture(
        stacks=(stack(2, "encoder"), stack(3, "decoder")),
        residual_adds=mixed,
        norms=(*norms(3, "decoder"), *norms(2, "encoder")),
    )
    assert architecture.adds_of_stack("encoder") == first
    assert architecture.adds_of_stack("decoder") == second
    assert architecture.norms_of_stack("encoder") == norms(2, "encoder")
    assert architecture.adds_of_stack("encoder.0") == ()


def test_a_layer_has_an_id() -> None:
    assert layer_id("model.layers", 3) == "model.layers/layer#3"
