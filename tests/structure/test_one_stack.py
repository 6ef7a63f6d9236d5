"""One stack, however it is written: its layers, ids, norms and numbers."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
from torch import Tensor, nn

import normdiag
from normdiag.report.report import Report
from tests.structure import composed_streams, post_spellings, stack_spellings, stream_spellings
from tests.structure.small_parts import DEPTH, IDS, VOCAB, WIDTH, draw_weights

Build = Callable[[], Any]
MODULES_OF_ONE_ADD = (stack_spellings.FlatWrappers,)
"""A list of modules that each add once: its items are the layers."""
UNNAMED = (stack_spellings.TwoLists, stack_spellings.Stacked)
"""No one list holds the layers."""
SAME_WEIGHTS = (
    stack_spellings.Triples, stack_spellings.OneAddModule, stack_spellings.Pairs,
    stack_spellings.FlatWrappers, stack_spellings.ParentLoop, stack_spellings.OneLine,
    stack_spellings.ByForward, stack_spellings.PartsAlone, stack_spellings.TwoLists,
    stack_spellings.InPlace, stack_spellings.Dictionaries, stack_spellings.SequenceFirst,
    stream_spellings.SplitAndJoined, stream_spellings.JoinedInside,
    stream_spellings.ClassTokenApart,
)  # fmt: skip
"""Draw the same weights in the same order as Plain, and compute the same stream."""


@functools.cache
def inspect_model(build: Build) -> Report:
    return normdiag.inspect(draw_weights(build()), inputs=IDS, measure="stream,norms")


def name_of(build: Build) -> str:
    return build.__name__


def assert_sound(report: Report) -> None:
    """Every norm and add is attached, replayed and closed, and there is nothing to report."""
    assert not [f.message for f in report.findings if f.severity != "info"]
    assert not report.coverage.unexplained_adds and not report.coverage.unexplained_norms
    assert max(r.max_rel_error for r in report.measurements.replay.values()) < 1e-5
    closures = report.measurements.closure
    assert set(closures) == {s.id for s in report.architecture.stacks}
    assert max(c.max_rel_error for c in closures.values()) < 1e-5


@pytest.mark.parametrize(
    "build", (*stack_spellings.SPELLINGS, *stream_spellings.SPELLINGS), ids=name_of
)
def test_a_pre_norm_stack_is_one(build: Build) -> None:
    report = inspect_model(build)
    (stack,) = report.architecture.stacks
    per_layer = 1 if build in MODULES_OF_ONE_ADD else 2
    assert stack.layers == 2 * DEPTH // per_layer
    assert (stack.residual_adds_per_layer, stack.norms_per_layer) == (per_layer, per_layer)
    assert (stack.placement, stack.norm_kind, stack.final_norm) == ("pre", "rmsnorm", "final")
    assert stack.id == ("" if build in UNNAMED else "blocks")
    assert [a.depth for a in report.architecture.residual_adds] == list(range(2 * DEPTH))
    assert [a.layer for a in report.architecture.residual_adds] == [
        i // per_layer for i in range(2 * DEPTH)
    ]
    assert len(report.architecture.norms) == 2 * DEPTH + 1
    assert not stack.single_adds
    assert_sound(report)


@pytest.mark.parametrize("build", post_spellings.POST, ids=name_of)
def test_a_post_norm_stack_is_one(build: Build) -> None:
    report = inspect_model(build)
    (stack,) = report.architecture.stacks
    assert stack.id == post_spellings.POST[build]
    assert (stack.layers, stack.residual_adds_per_layer, stack.norms_per_layer) == (DEPTH, 2, 2)
    assert (stack.placement, stack.final_norm) == ("post", None)
    assert {n.role for n in report.architecture.norms} == {"stream"}
    assert_sound(report)


@pytest.mark.parametrize("build", SAME_WEIGHTS, ids=name_of)
def test_the_numbers_are_those_of_the_plain_spelling(build: Build) -> None:
    expected, found = (
        [(s.out_norm, s.update_ratio, s.cosine) for s in r.measurements.stream.values()]
        for r in (inspect_model(stack_spellings.Plain), inspect_model(build))
    )
    assert len(found) == len(expected) == 2 * DEPTH
    for here, there in zip(found, expected, strict=True):
        assert [q.median for q in here] == pytest.approx([q.median for q in there], rel=1e-5)


@pytest.mark.parametrize(
    ("build", "path"),
    [
        (stack_spellings.Triples, "blocks.{0}"),
        (stack_spellings.OneAddModule, "blocks.{0}"),
        (stack_spellings.ParentLoop, "blocks.{1}"),
        (stack_spellings.ByForward, "blocks.{1}"),
        (stack_spellings.Dictionaries, "blocks.{1}"),
        (stack_spellings.Functional, "blocks.{1}"),
    ],
)
def test_an_add_is_named_by_the_container_of_its_block(build: Build, path: str) -> None:
    adds = inspect_model(build).architecture.residual_adds
    assert [a.module for a in adds] == [path.format(i, i // 2) for i in range(2 * DEPTH)]
    assert len({a.id for a in adds}) == len(adds)


@pytest.mark.parametrize("build", composed_streams.COMPOSED, ids=name_of)
def test_stacks_behind_each_other(build: Build) -> None:
    report = inspect_model(build)
    found = [
        (s.id, s.layers, len(report.architecture.adds_of_stack(s.id)), s.final_norm)
        for s in report.architecture.stacks
    ]
    assert found == composed_streams.COMPOSED[build]
    assert_sound(report)


@pytest.mark.parametrize("build", composed_streams.SINGLE, ids=name_of)
def test_a_single_add_is_named_and_of_no_layer(build: Build) -> None:
    report = inspect_model(build)
    (stack,) = report.architecture.stacks
    (single,) = stack.single_adds
    assert (stack.id, stack.layers, stack.residual_adds_per_layer) == ("blocks", DEPTH, 2)
    assert (single.module, single.place, single.layer) == composed_streams.SINGLE[build]
    assert single.id not in {a.id for a in report.architecture.residual_adds}
    assert stack.final_norm == "final"
    assert_sound(report)


def test_a_sum_beside_the_stream_parts_no_stack() -> None:
    report = inspect_model(post_spellings.TwoSums)
    (stack,) = report.architecture.stacks
    assert (stack.id, stack.layers, stack.placement) == ("blocks", DEPTH, "post")
    assert {a.placement for a in report.architecture.residual_adds} == {"post"}
    assert len(report.architecture.residual_adds) == 2 * DEPTH
    assert [s.module for s in stack.single_adds] == [""]
    assert not [f.message for f in report.findings if f.severity != "info"]


class AddsBeside(stack_spellings.Plain):
    """A second value is computed from the ids alone, by one residual add."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.beside, self.change = nn.Embedding(VOCAB, width), nn.Linear(width, width)

    def forward(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        value = self.beside(ids)
        return super().forward(ids), value + self.change(value)


@pytest.mark.parametrize(("width", "unexplained"), [(2, 0), (WIDTH, 1)])
def test_an_add_of_no_stack_is_a_gap_where_it_has_the_width_of_one(
    width: int, unexplained: int
) -> None:
    report = inspect_model(functools.partial(AddsBeside, width))
    (stack,) = report.architecture.stacks
    assert (stack.id, stack.layers, stack.single_adds) == ("blocks", DEPTH, ())
    found = [f for f in report.findings if f.code == "ND001" and f.severity == "warning"]
    assert len(found) == len(report.coverage.unexplained_adds) == unexplained
