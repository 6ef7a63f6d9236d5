"""A tensor is the current value of its storage, in its geometry."""

from __future__ import annotations

import gc
import itertools
import weakref

import pytest
import torch

from normdiag.capture.identity import TensorIdentity
from normdiag.graph import Frame, Node
from tests.capture.recording import find_ancestors, find_nodes, find_only_node, record_graph


def node(name: str) -> Node:
    return Node(
        index=0, op=name, args=(), kwargs={}, parents=(), shape=(), dtype="float32",
        frame=Frame("", 0, "", None), is_data=True, origins=0,
    )  # fmt: skip


class TestBind:
    def test_an_unknown_tensor_has_no_node(self) -> None:
        assert TensorIdentity().find_node(torch.zeros(3)) is None

    def test_two_objects_of_one_value_are_one_node(self) -> None:
        identity, x, n = TensorIdentity(), torch.zeros(4, 6), node("x")
        identity.bind_tensor(x, n)
        assert identity.find_node(x.detach()) is n
        assert identity.find_node(x.view(4, 6)) is n

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
        identity, x, whole, part = TensorIdentity(), torch.zeros(2, 3), node("x"), node("view")
        identity.bind_tensor(x, whole)
        identity.bind_tensor(view(x), part)
        assert identity.find_node(x) is whole
        assert identity.find_node(view(x)) is part

    def test_what_has_no_storage_is_known_by_object(self) -> None:
        identity, n = TensorIdentity(), node("sparse")
        sparse = torch.eye(3).to_sparse()
        identity.bind_tensor(sparse, n)
        assert identity.find_node(sparse) is n
        assert identity.find_node(torch.eye(3).to_sparse()) is None

    def test_meta_tensors_are_distinct(self) -> None:
        identity, n, m = TensorIdentity(), node("x"), node("y")
        x, y = torch.zeros(3, device="meta"), torch.zeros(3, device="meta")
        identity.bind_tensor(x, n)
        identity.bind_tensor(y, m)
        assert (identity.find_node(x), identity.find_node(y)) == (n, m)


class TestWrite:
    def test_a_write_through_a_view_makes_base_and_siblings_new(self) -> None:
        identity, x = TensorIdentity(), torch.zeros(2, 3)
        first, second, old, new = x[0], x[1], node("old"), node("new")
        for tensor in (x, first, second):
            identity.bind_tensor(tensor, old)
        is_part = identity.record_write(first, new)
        assert is_part
        assert [identity.find_node(t) for t in (x, first, second)] == [new] * 3

    def test_a_write_to_all_of_a_storage_is_no_write_to_a_part(self) -> None:
        identity, x = TensorIdentity(), torch.zeros(2, 3)
        assert not identity.record_write(x, node("all"))
        assert not identity.record_write(x.view(6), node("all"))
        assert identity.record_write(x[:1], node("part"))

    def test_the_rest_reads_what_the_whole_is_now(self) -> None:
        identity, x = TensorIdentity(), torch.zeros(2, 3)
        part, whole = node("part"), node("whole")
        identity.record_write(x[0], part)
        identity.record_storage_write(x[0], whole)
        assert identity.find_node(x[0]) is part
        assert identity.find_node(x) is whole
        assert identity.find_node(x[1]) is whole


class TestAddresses:
    def test_a_freed_storage_is_not_taken_for_a_new_one(self) -> None:
        identity = TensorIdentity()
        for i in range(200):  # malloc gives the same block again and again
            x = torch.empty(64)
            assert identity.find_node(x) is None, i
            identity.bind_tensor(x, node(str(i)))
            del x

    def test_no_data_is_kept(self) -> None:
        identity, x = TensorIdentity(), torch.zeros(64)
        gone = weakref.ref(x.untyped_storage())
        identity.bind_tensor(x, node("x"))
        del x
        gc.collect()
        assert gone() is None


class TestInAForward:
    def test_an_in_place_add_through_a_view_reaches_the_base(self) -> None:
        def forward(x):
            y = x * 2
            y[:, 0].add_(1)
            return y.sum()

        graph = record_graph(forward, torch.randn(3, 4))
        assert find_only_node(graph, "add") in find_ancestors(find_only_node(graph, "sum"))
        assert find_only_node(graph, "mul") in find_ancestors(find_only_node(graph, "sum"))

    def test_and_an_earlier_sibling_view(self) -> None:
        def forward(x):
            y = x * 2
            other = y.view(-1)
            y.add_(1)
            return other.sum()

        graph = record_graph(forward, torch.randn(3, 4))
        assert find_only_node(graph, "add") in find_ancestors(find_only_node(graph, "sum"))

    def test_but_not_an_earlier_copy(self) -> None:
        def forward(x):
            y = x * 2
            copy = y.clone()
            y.add_(1)
            return copy.sum()

        graph = record_graph(forward, torch.randn(3, 4))
        assert find_only_node(graph, "add") not in find_ancestors(find_only_node(graph, "sum"))

    def test_a_value_read_before_the_write_is_the_old_one(self) -> None:
        def forward(x):
            y = x * 2
            before = y.exp()
            y.add_(1)
            return before, y.tanh()

        graph = record_graph(forward, torch.randn(3, 4))
        assert find_only_node(graph, "add") not in find_ancestors(find_only_node(graph, "exp"))
        assert find_only_node(graph, "add") in find_ancestors(find_only_node(graph, "tanh"))

    @pytest.mark.parametrize("mode", [torch.no_grad, torch.enable_grad, torch.inference_mode])
    def test_every_mode_sees_the_same(self, mode) -> None:
        def forward(x):
            y = x * 2
            y[0] += 1
            return (y.view(-1) * y.t().reshape(-1)).sum()

        graph = record_graph(forward, torch.randn(3, 3), mode=mode)
        ops = {n.op for n in find_ancestors(find_only_node(graph, "sum"))}
        assert {"input", "mul", "add"} <= ops
        assert not find_nodes(graph, "constant")

    def test_storage_that_is_handed_on_is_new_each_time(self) -> None:
        def forward(x):
            for _ in range(20):
                x = x.exp().log()  # each temporary is freed at once
            return x

        graph = record_graph(forward, torch.rand(1000) + 1)
        chain = [n for n in graph if n.op in ("exp", "log")]
        assert len(chain) == 40
        for before, after in itertools.pairwise(chain):
            assert after.parents == (before,)

    def test_meta_tensors_flow(self) -> None:
        def forward(x):
            y = x + 1
            y.mul_(2)
            return y.exp()

        graph = record_graph(forward, torch.empty(3, 4, device="meta"))
        assert find_only_node(graph, "exp").parents == (find_only_node(graph, "mul"),)
        assert find_only_node(graph, "mul").parents[0] is find_only_node(graph, "add")
