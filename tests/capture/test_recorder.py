"""One node per tensor that an operation makes, in order, and no tensor kept."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from normdiag.errors import NormdiagError
from tests.capture.recording import (
    RecordingObserver,
    find_ancestors,
    find_nodes,
    find_only_node,
    record_graph,
)


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(4, 8)
        self.scale = nn.Parameter(torch.ones(8))
        self.register_buffer("offset", torch.ones(8))

    def forward(self, x):
        return (self.up(x).relu() * (self.scale + 1) + self.offset) @ self.up.weight


class Counting(TorchDispatchMode):
    """What torch itself dispatches, counted beside."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.calls += 1
        return func(*args, **(kwargs or {}))


class TestNodes:
    def test_there_is_one_per_operation(self) -> None:
        model, x = Mlp(), torch.randn(3, 4)
        graph = record_graph(model, x)
        with torch.no_grad(), Counting() as counting:
            model(x)
        leaves = {"parameter", "buffer", "input", "constant"}
        assert sum(n.op not in leaves for n in graph) == counting.calls

    def test_they_are_numbered_in_the_order_of_the_forward(self) -> None:
        graph = record_graph(Mlp(), torch.randn(3, 4))
        assert [n.index for n in graph] == list(range(len(graph)))
        assert all(p.index < n.index for n in graph for p in n.parents)

    def test_they_state_what_torch_computed(self) -> None:
        graph = record_graph(lambda x: x.to(torch.float16).argmax(-1), torch.randn(3, 4))
        cast, index = find_only_node(graph, "_to_copy"), find_only_node(graph, "argmax")
        assert (cast.shape, cast.dtype, cast.is_floating) == ((3, 4), "float16", True)
        assert (index.shape, index.dtype, index.is_floating) == ((3,), "int64", False)

    def test_an_in_place_operation_has_the_name_of_its_twin(self) -> None:
        graph = record_graph(lambda x: (x * 2).add_(1).relu_(), torch.randn(3, 4))
        assert [n.op for n in graph] == ["input", "mul", "add", "relu"]

    def test_operands_stand_where_they_stood(self) -> None:
        graph = record_graph(lambda x, y: torch.addcmul(x, y, x, value=0.5), *torch.randn(2, 3, 4))
        x, y = find_nodes(graph, "input")
        node = find_only_node(graph, "addcmul")
        assert node.args == (x, y, x)
        assert node.parents == (x, y, x)
        assert node.kwargs == {"value": 0.5}

    def test_lists_of_tensors_are_operands_too(self) -> None:
        graph = record_graph(lambda x, y: torch.cat([x, y], -1), *torch.randn(2, 3, 4))
        assert find_only_node(graph, "cat").parents == tuple(find_nodes(graph, "input"))

    def test_every_result_of_an_operation_is_a_node(self) -> None:
        graph = record_graph(lambda x: [part.exp() for part in x.split(2, -1)], torch.randn(3, 4))
        parts = find_nodes(graph, "split")
        assert [p.output for p in parts] == [0, 1]
        assert [n.parents for n in find_nodes(graph, "exp")] == [(p,) for p in parts]

    def test_results_of_different_kinds_are_distinct(self) -> None:
        graph = record_graph(lambda x: x.max(-1).values.exp(), torch.randn(3, 4))
        (values, indices) = find_nodes(graph, "max")
        assert (values.output, indices.output) == (0, 1)
        assert find_only_node(graph, "exp").parents == (values,)

    def test_inference_mode_shows_the_same_operations(self) -> None:
        def attend(x):
            y = torch.einsum("btc,bsc->bts", x, x.view_as(x)).softmax(-1).matmul(x)
            return nn.functional.linear(y.unflatten(-1, (2, 2)).flatten(-2).type_as(x), x[0])

        graphs = [
            record_graph(attend, torch.randn(2, 3, 4), mode=mode)
            for mode in (torch.no_grad, torch.inference_mode)
        ]
        plain, inference = (
            # a matrix product's result is the view of a fresh value, and only autograd minds
            [(n.op.replace("_unsafe_view", "view"), n.shape, n.parents and n.parents[0].index)
             for n in graph]
            for graph in graphs
        )  # fmt: skip
        assert plain == inference

    def test_a_norm_with_statistics_gives_three(self) -> None:
        graph = record_graph(nn.LayerNorm(4), torch.randn(3, 4))
        outputs = find_nodes(graph, "native_layer_norm")
        assert [n.output for n in outputs] == [0, 1, 2]
        assert [n.shape for n in outputs] == [(3, 4), (3, 1), (3, 1)]


class TestWrites:
    def test_an_out_variant_writes_its_out(self) -> None:
        def forward(x):
            out = torch.empty(3, 4)
            torch.add(x, 1, out=out)
            return out.exp()

        graph = record_graph(forward, torch.randn(3, 4))
        assert find_only_node(graph, "exp").parents == (find_only_node(graph, "add"),)

    def test_copy_into_a_part_makes_a_value_of_both(self) -> None:
        def forward(x):
            buffer = torch.zeros(2, 3, 4)
            buffer[1] = x.exp()
            return buffer.sum()

        graph = record_graph(forward, torch.randn(3, 4))
        assert find_only_node(graph, "exp") in find_ancestors(find_only_node(graph, "sum"))
        assert find_only_node(graph, "zeros") in find_ancestors(find_only_node(graph, "sum"))
        assert find_only_node(graph, "sum").is_data

    def test_parts_written_one_by_one_leave_the_rest_what_it_was(self) -> None:
        def forward(x):
            y = x.exp()
            y[..., 1] += 5
            y[0, 2:] = 7
            return y.sum()

        graph = record_graph(forward, torch.randn(3, 4))
        value = find_only_node(graph, "sum").parents[0]
        while value.op == "write":
            assert value.shape == (3, 4)
            value = value.parents[0]
        assert value is find_only_node(graph, "exp")

    def test_the_observer_can_ask_for_what_is_overwritten(self) -> None:
        observer = RecordingObserver(overwritten=("add",), keeps=True)
        x = torch.randn(3, 4)
        record_graph(lambda x: (x * 2).add_(torch.ones(3, 4)), x, observer=observer)
        (at,) = [i for i, n in enumerate(observer.nodes) if n.op == "add"]
        torch.testing.assert_close(observer.operands[at][0], x * 2)

    def test_and_is_shown_the_written_one_otherwise(self) -> None:
        observer, x = RecordingObserver(keeps=True), torch.randn(3, 4)
        record_graph(lambda x: (x * 2).add_(torch.ones(3, 4)), x, observer=observer)
        (at,) = [i for i, n in enumerate(observer.nodes) if n.op == "add"]
        torch.testing.assert_close(observer.operands[at][0], x * 2 + 1)


class TestData:
    def test_what_derives_from_parameters_alone_is_no_data(self) -> None:
        graph = record_graph(Mlp(), torch.randn(3, 4))
        gain = next(n for n in find_nodes(graph, "add") if n.shape == (8,))
        assert not gain.is_data
        assert find_only_node(graph, "relu").is_data
        assert find_only_node(graph, "mul").is_data

    def test_parameters_and_buffers_are_named(self) -> None:
        graph = record_graph(Mlp(), torch.randn(3, 4))
        assert {n.name for n in find_nodes(graph, "parameter")} == {"up.weight", "up.bias", "scale"}
        assert {n.name for n in find_nodes(graph, "buffer")} == {"offset"}

    def test_a_tensor_from_outside_is_a_constant(self) -> None:
        outside = torch.randn(4)
        graph = record_graph(lambda x: x + outside, torch.randn(3, 4))
        assert find_only_node(graph, "constant").shape == (4,)
        assert not find_only_node(graph, "constant").is_data

    def test_origins_say_which_inputs_a_value_comes_from(self) -> None:
        def forward(x, y, z):
            return x.exp(), (x * y).tanh(), z.relu()

        graph = record_graph(forward, *torch.randn(3, 3, 4))
        assert graph.inputs == ["x0", "x1", "x2"]
        origins = [find_only_node(graph, op).origins for op in ("exp", "tanh", "relu")]
        assert origins == [0b001, 0b011, 0b100]

    @pytest.mark.parametrize("make", [torch.zeros_like, torch.ones_like, torch.empty_like])
    def test_only_the_shape_of_a_factorys_operand_counts(self, make) -> None:
        graph = record_graph(lambda x: make(x) + 1, torch.randn(3, 4))
        assert not find_only_node(graph, "add").is_data
        assert find_only_node(graph, "add").origins == 0

    def test_learned_tokens_copied_for_every_sequence_are_data(self) -> None:
        class Queries(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.queries = nn.Parameter(torch.randn(1, 5, 8))

            def forward(self, x):
                return self.queries.expand(len(x), -1, -1).exp()

        graph = record_graph(Queries(), torch.randn(3, 4))
        assert find_only_node(graph, "expand").is_data
        assert find_only_node(graph, "exp").is_data
        assert find_only_node(graph, "exp").origins == 0

    def test_a_learned_vector_spread_over_tokens_is_not(self) -> None:
        class Gain(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.gain = nn.Parameter(torch.randn(4, 1))

            def forward(self, x):
                return x * self.gain.expand(4, 3)

        assert not find_only_node(record_graph(Gain(), torch.randn(4, 3)), "expand").is_data


class TestMemory:
    def test_no_activation_outlives_the_forward(self) -> None:
        alive: list[weakref.ref] = []

        def forward(x):
            for _ in range(5):
                x = x * 2 + x.exp().tanh()
                alive.append(weakref.ref(x.untyped_storage()))
            x[0] += 1
            return x.sum()

        graph = record_graph(forward, torch.randn(3, 4))
        gc.collect()
        assert len(graph) > 20
        assert [ref() for ref in alive] == [None] * 5

    def test_nor_the_next_operation(self) -> None:
        alive = []

        def forward(x):
            a = x.exp()
            ref = weakref.ref(a.untyped_storage())
            b = a * 2
            del a
            gc.collect()
            alive.append(ref() is not None)
            return b

        record_graph(forward, torch.randn(3, 4))
        assert alive == [False]

    def test_the_graph_holds_no_tensor(self) -> None:
        graph = record_graph(Mlp(), torch.randn(3, 4))
        held = [
            value
            for node in graph
            for value in (*node.args, *node.kwargs.values())
            if isinstance(value, torch.Tensor)
        ]
        assert held == []


def test_the_result_is_what_the_model_gives_alone() -> None:
    model, x = Mlp(), torch.randn(3, 4)
    results = []
    record_graph(lambda x: results.append(model(x)), x)
    torch.testing.assert_close(results[0], model(x), rtol=0, atol=0)


def test_a_fault_of_the_observer_does_not_look_like_the_models() -> None:
    class Broken(RecordingObserver):
        def observe_operation(self, node, args, output) -> None:
            raise ValueError("no such thing")

    with pytest.raises(NormdiagError, match="reading the operation exp failed: ValueError"):
        record_graph(lambda x: x.exp(), torch.randn(3, 4), observer=Broken())


def test_a_fault_of_the_model_stays_the_models() -> None:
    with pytest.raises(RuntimeError, match="shape"):
        record_graph(lambda x: x @ x, torch.randn(3, 4))
