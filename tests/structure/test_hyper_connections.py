"""Hyper-connections: streams are counted, and the weights that read and write them are stored."""

from __future__ import annotations

import pytest
import torch

import normdiag
from normdiag.evidence.architecture import ResidualAdd
from normdiag.report.report import Report
from tests.structure.hyper_spellings import (
    LEARNED,
    STREAMS,
    Hyper,
    HyperNet,
    Wiring,
    by_matmul,
    folded,
    mean_and_copies,
    of_data,
    of_one_matrix,
    wide,
    with_layer_scale,
)
from tests.structure.small_decoder import WIDTH, Tensor, codes_of


def _inspect(wiring: Wiring, measure: tuple[str, ...] = ("stream", "norms")) -> tuple:
    torch.manual_seed(0)
    model = HyperNet(wiring).eval()
    return model, normdiag.inspect(model, inputs=torch.randint(0, 11, (2, 8)), measure=measure)


def _adds_of(report: Report) -> tuple[ResidualAdd, ...]:
    (stack,) = report.architecture.stacks
    assert (stack.placement, stack.layers, stack.streams) == ("other", 3, STREAMS)
    return report.architecture.residual_adds


def _weights_of_autograd(model: HyperNet, block: Hyper) -> tuple[list[float], list[float]]:
    """What the input of the norm is of the streams, and they of the branch's output."""
    read: list[Tensor] = []
    hook = block.norm.register_forward_pre_hook(lambda _, args: read.append(args[0]))
    x = model.spread(torch.randn(2, 8, WIDTH)).clone().requires_grad_()
    block(x)
    hook.remove()
    (slope,) = torch.autograd.grad(read[0][1, 5, 3], x)
    y = torch.randn(2, 8, WIDTH, requires_grad=True)
    block.branch = lambda _: y
    written = model.take_apart(block(x.detach()))[1, 5, :, 3]
    del block.branch
    slopes = [torch.autograd.grad(one, y, retain_graph=True)[0][1, 5, 3] for one in written]
    return model.take_apart(slope)[1, 5, :, 3].tolist(), torch.stack(slopes).tolist()


@pytest.mark.parametrize("wiring", LEARNED)
def test_the_weights_are_those_of_autograd(wiring: Wiring) -> None:
    model, report = _inspect(wiring)
    assert not {"ND109", "ND104"} & codes_of(report)
    for add, block in zip(_adds_of(report), model.blocks, strict=True):
        read, write = _weights_of_autograd(model, block)
        if wiring is with_layer_scale:  # those of the features are no weights of streams
            write = [value / float(block.scale[3].detach()) for value in write]
        for weights, expected in ((add.read_weights, read), (add.write_weights, write)):
            assert weights.kind == "learned"
            assert weights.values == pytest.approx(expected, rel=1e-5)


def test_a_mean_and_copies_have_constant_weights() -> None:
    _, report = _inspect(mean_and_copies)
    for add in _adds_of(report):
        assert (add.read_weights.kind, add.write_weights.kind) == ("constant", "constant")
        assert add.read_weights.values == pytest.approx([1 / STREAMS] * STREAMS)
        assert add.write_weights.values == (1.0,) * STREAMS


def test_weights_that_tokens_compute_are_said_to_be() -> None:
    _, report = _inspect(of_data)
    for add in _adds_of(report):
        for weights in (add.read_weights, add.write_weights):
            assert (weights.kind, weights.values) == ("data", None)


@pytest.mark.parametrize("wiring", [by_matmul, of_one_matrix, folded, wide])
def test_the_jacobian_of_a_layer_is_of_all_streams(wiring: Wiring) -> None:
    torch.manual_seed(0)
    model, ids = HyperNet(wiring).eval(), torch.randint(0, 11, (2, 8))
    report = normdiag.inspect(model, inputs=ids, measure=("jacobians",))
    blocks = report.measurements.blocks
    assert report.coverage.skipped == ()
    x = model.spread(model.tok(ids[:1, 7:])).detach()  # a block looks at no other token
    for layer, block in enumerate(model.blocks):
        jacobian = torch.autograd.functional.jacobian(block, x).reshape(x.numel(), -1)
        singular = torch.linalg.svdvals(jacobian.double())
        (at,) = (t for t in blocks[f"blocks/layer#{layer}"].tokens if t.token.position == 7)
        assert at.sigma_max == pytest.approx(float(singular[0]), rel=1e-3)
        assert at.kappa == pytest.approx(float(singular[0] / singular[-1]), rel=1e-3)
        x = block(x).detach()
