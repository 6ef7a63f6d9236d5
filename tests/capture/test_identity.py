"""A tensor is the value that its storage holds now, seen through its geometry."""

from __future__ import annotations

import gc
import itertools
import weakref

import pytest
import torch

from normdiag.capture.identity import Identity
from normdiag.graph import Frame, Node
from tests.capture.recording import ancestors, made, only, record


def node(name: str) -> Node:
    return Node(
        index=0, op=name, args=(), kwargs={}, parents=(), shape=(), dtype="float32",
        frame=Frame("", 0, "", None), is_data=True, origins=0,
    )  # fmt: skip


class TestBind:
    def test_a_tensor_that_was_never_seen_is_nobody(self) -> None:
        assert Identity().node_of(torch.zeros(3)) is None

    def test_two_objects_of_one_value_are_one_node(self) -> None:
        identity, x, n = Identity(), torch.zeros(4, 6), node("x")
        identity.bind(x, n)
        assert identity.node_of(x.detach()) is n
        assert identity.node_of(x.view(4, 6)) is n

    @pytest.mark.parametrize(
        "view",
        [
            lambda x: x.t(),
            lambda x: x[1:],
            lambda x: x[:, :2],
            lambda x: x.view(3, 2),
            lambda x: x.view(torch.int32),
        ],
        ids=["transposed", "later rows", "first columns", "reshaped", "other dtype"],
    )
    def test_a_view_is_a_value_of_its_own(self, view) -> None:
        identity, x, whole, part = Identity(), torch.zeros(2, 3), node("x"), node("view")
        identity.bind(x, whole)
        identity.bind(view(x), part)
        assert identity.node_of(x) is whole
        assert identity.node_of(view(x)) is part

    def test_what_has_no_storage_is_known_by_object(self) -> None:
        identity, n = Identity(), node("sparse")
        sparse = torch.eye(3).to_sparse()
        identity.bind(sparse, n)
        assert identity.node_of(sparse) is n
        assert identity.node_of(torch.eye(3).to_sparse()) is None

    def test_meta_tensors_are_told_apart(self) -> None:
        identity, n, m = Identity(), node("x"), node("y")
        x, y = torch.zeros(3, device="meta"), torch.zeros(3, device="meta")
        identity.bind(x, n)
        identity.bind(y, m)
        assert (identity.node_of(x), identity.node_of(y)) == (n, m)


class TestWrite:
    def test_a_write_through_a_view_makes_base_and_siblings_new(self) -> None:
        identity, x = Identity(), torch.zeros(2, 3)
        first, second, old, new = x[0], x[1], node("old"), node("new")
        for tensor in (x, first, second):
            identity.bind(tensor, old)
        is_part = identity.write(first, new)
        assert is_part
        assert [identity.node_of(t) for t in (x, first, second)] == [new] * 3

    def test_a_write_to_all_of_a_storage_is_told_from_one_to_a_part(self) -> None:
        identity, x = Identity(), torch.zeros(2, 3)
        assert not identity.write(x, node("all"))
        assert not identity.write(x.view(6), node("all"))
        assert identity.write(x[:1], node("part"))

    def test_the_rest_reads_what_the_whole_is_now(self) -> None:
        identity, x = Identity(), torch.zeros(2, 3)
        part, whole = node("part"), node("whole")
        identity.write(x[0], part)
        identity.write_whole(x[0], whole)
        assert identity.node_of(x[0]) is part
        assert identity.node_of(x) is whole
        assert identity.node_of(x[1]) is whole


class TestAddresses:
    def test_a_freed_storage_is_not_taken_for_a_new_one(self) -> None:
        identity = Identity()
        for i in range(200):  # malloc gives the same block again and again
            x = torch.empty(64)
            assert identity.node_of(x) is None, i
            identity.bind(x, node(str(i)))
            del x

    def test_no_data_is_kept(self) -> None:
        identity, x = Identity(), torch.zeros(64)
        gone = weakref.ref(x.untyped_storage())
        identity.bind(x, node("x"))
        del x
        gc.collect()
        assert gone() is None


class TestInAForward:
    def test_an_in_place_add_through_a_view_reaches_the_base(self) -> None:
        def forward(x):
            y = x * 2
            y[:, 0].add_(1)
            return y.sum()

        graph = record(forward, torch.randn(3, 4))
        assert only(graph, "add") in ancestors(only(graph, "sum"))
        assert only(graph, "mul") in ancestors(only(graph, "sum"))

    def test_and_a_sibling_view_made_before_it(self) -> None:
        def forward(x):
            y = x * 2
            other = y.view(-1)
            y.add_(1)
            return other.sum()

        graph = record(forward, torch.randn(3, 4))
        assert only(graph, "add") in ancestors(only(graph, "sum"))

    def test_but_not_a_copy_made_before_it(self) -> None:
        def forward(x):
            y = x * 2
            copy = y.clone()
            y.add_(1)
            return copy.sum()

        graph = record(forward, torch.randn(3, 4))
        assert only(graph, "add") not in ancestors(only(graph, "sum"))

    def test_a_value_read_before_the_write_is_the_old_one(self) -> None:
        def forward(x):
            y = x * 2
            before = y.exp()
            y.add_(1)
            return before, y.tanh()

        graph = record(forward, torch.randn(3, 4))
        assert only(graph, "add") not in ancestors(only(graph, "exp"))
        assert only(graph, "add") in ancestors(only(graph, "tanh"))

    @pytest.mark.parametrize("mode", [torch.no_grad, torch.enable_grad, torch.inference_mode])
    def test_every_mode_sees_the_same(self, mode) -> None:
        def forward(x):
            y = x * 2
            y[0] += 1
            return (y.view(-1) * y.t().reshape(-1)).sum()

        graph = record(forward, torch.randn(3, 3), mode=mode)
        seen = {n.op for n in ancestors(only(graph, "sum"))}
        assert {"input", "mul", "add"} <= seen
        assert not made(graph, "constant")

    def test_storage_that_is_handed_on_is_new_each_time(self) -> None:
        def forward(x):
            for _ in range(20):
                x = x.exp().log()  # each temporary is freed at once
            return x

        graph = record(forward, torch.rand(1000) + 1)
        chain = [n for n in graph if n.op in ("exp", "log")]
        assert len(chain) == 40
        for before, after in itertools.pairwise(chain):
            assert after.parents == (before,)

    def test_meta_tensors_flow(self) -> None:
        def forward(x):
            y = x + 1
            y.mul_(2)
            return y.exp()

        graph = record(forward, torch.empty(3, 4, device="meta"))
        assert only(graph, "exp").parents == (only(graph, "mul"),)
        assert only(graph, "mul").parents[0] is only(graph, "add")
