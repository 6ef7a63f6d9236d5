"""A learned bias that is added to the stream itself is a part of it, and of no branch."""

from __future__ import annotations

import pytest

from tests.structure.small_decoder import Block, Tensor, Wiring, codes_of, inspect_blocks


def _bias_between_branches(b: Block, x: Tensor) -> Tensor:
    return (x + b.attn(b.n1(x))) + b.n2.bias + b.mlp(b.n2(x))


def _bias_between_adds(b: Block, x: Tensor) -> Tensor:
    x = x + b.attn(b.n1(x)) + b.n1.bias
    return x + b.mlp(b.n2(x))


def _bias_ahead_of_both(b: Block, x: Tensor) -> Tensor:
    return (x + b.n1.bias) + b.attn(b.n1(x)) + b.mlp(b.n2(x))


def _bias_behind_a_scale(b: Block, x: Tensor) -> Tensor:
    x = 0.5 * x + b.n1.bias + b.attn(b.n1(x))
    return 0.5 * (x + b.n2.bias) + b.mlp(b.n2(x))


@pytest.mark.parametrize(
    ("wiring", "scale"),
    [
        (_bias_between_branches, None),
        (_bias_between_adds, None),
        (_bias_ahead_of_both, None),
        (_bias_behind_a_scale, 0.5),
    ],
)
def test_a_learned_bias_on_the_stream_is_replayed(wiring: Wiring, scale: float | None) -> None:
    report = inspect_blocks(*[wiring] * 3)
    (stack,) = report.architecture.stacks
    assert (stack.layers, stack.final_norm) == (3, "final")
    errors = [*report.measurements.replay.values(), *report.measurements.closure.values()]
    assert max(error.max_rel_error for error in errors) < 1e-5
    assert report.coverage.unexplained_adds == () and codes_of(report) == set()
    assert {add.skip_scale.value for add in report.architecture.residual_adds} == {scale}
