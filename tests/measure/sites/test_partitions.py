"""The same passes, partitioned in any way and merged in any order, give the same measurements."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from normdiag.evidence.measurements import Measurements
from normdiag.inputs.batch import Batch
from normdiag.measure.passes.forward import ForwardPass, RowSampling, run_forward
from normdiag.measure.passes.site_observer import MeasuredQuantities
from normdiag.measure.sites.site_accumulators import SiteAccumulators
from normdiag.measure.sites.site_statistics import SiteStatistics
from normdiag.measure.sites.tokens import InputSequence
from normdiag.measure.statistics.earliest_pass import EarliestPass
from normdiag.measure.statistics.largest_element import LargestElement
from normdiag.measure.statistics.token_statistics import TokenStatistics
from normdiag.numerics import quantiles
from normdiag.numerics.quantiles import RELATIVE_ERROR

MEASURES = ("stream-adds", "norm-inputs", "norm-jacobians")
WIDTH = 6


class Block(nn.Module):
    """x + a gated branch, and from the second pass on a second add where `is_changing`."""

    def __init__(self, norm: nn.Module, is_changing: bool) -> None:
        super().__init__()
        self.norm, self.gate = norm, nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.is_changing = is_changing

    def forward(self, x):
        z = self.norm(x)
        x = x + self.down(torch.sigmoid(self.gate(z)) * self.up(z))
        return x + self.up(x) if self.is_changing and x.shape[1] == 3 else x


class BatchNorm(nn.BatchNorm1d):
    def forward(self, x):
        return super().forward(x.transpose(1, 2)).transpose(1, 2)


class Model(nn.Module):
    """Pre-norm blocks; takes embeddings and a mask."""

    def __init__(self, is_changing: bool = False) -> None:
        super().__init__()
        norms = (nn.LayerNorm(WIDTH), nn.RMSNorm(WIDTH, eps=1e-6), BatchNorm(WIDTH))
        self.blocks = nn.ModuleList([Block(norm, is_changing) for norm in norms])
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, inputs_embeds, attention_mask=None):
        x = inputs_embeds
        for block in self.blocks:
            x = block(x)
        return self.norm(x)


def run_passes(inputs: list[torch.Tensor], model: nn.Module, **quantities: bool) -> list[Any]:
    """(forward, sequences) of each tensor of inputs, and padding in every second one."""
    passes, row = [], 0
    for number, x in enumerate(inputs):
        mask = torch.ones(x.shape[:2], dtype=torch.long)
        mask[0, : number % 2] = 0
        rows = tuple(range(row, row + len(x)))
        batch = Batch(inputs={"inputs_embeds": x, "attention_mask": mask}, rows=rows)
        forward = run_forward(model, batch, MeasuredQuantities(**quantities), RowSampling(2))
        passes.append((forward, rows))
        row += len(x)
    return passes


def make_inputs(*, ties: bool = False, nonfinite: bool = False) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    inputs = [torch.randn(n, t, WIDTH, generator=generator) for n, t in [(2, 4), (1, 3), (1, 5)]]
    inputs += [inputs[0].flip(0) if ties else torch.randn(2, 4, WIDTH, generator=generator)]
    inputs += [inputs[1].clone() if ties else torch.randn(1, 1, WIDTH, generator=generator)]
    if nonfinite:
        inputs[2][0, 3, 2] = math.nan
        inputs[3][1, 1, 4] = math.inf
        inputs[4][0, 0, 1] = math.nan
    return inputs


def make_passes(kind: str) -> list[tuple[ForwardPass, tuple[int, ...]]]:
    torch.manual_seed(0)
    model = Model(is_changing=kind == "changing").eval()
    inputs = make_inputs(ties=kind == "ties", nonfinite=kind == "nonfinite")
    if kind == "half":
        model, inputs = model.bfloat16(), [x.bfloat16() for x in inputs]
    return run_passes(inputs, model)


KINDS = ("plain", "ties", "nonfinite", "half", "changing")
PASSES = {kind: make_passes(kind) for kind in KINDS}


def copy_pass(forward: ForwardPass) -> ForwardPass:
    """With records of its own: an update drops the statistics of the records."""
    fresh = copy.copy(forward)
    fresh.records = copy.copy(forward.records)
    fresh.records.norms = {k: copy.copy(r) for k, r in forward.records.norms.items()}
    fresh.records.adds = {k: copy.copy(r) for k, r in forward.records.adds.items()}
    return fresh


def accumulate_passes(passes: list[Any]) -> SiteStatistics:
    statistics = SiteStatistics(SiteAccumulators(keep_tokens=True))
    for forward, sequences in passes:
        statistics.update(copy_pass(forward), sequences)
    return statistics


@st.composite
def partitions(draw: st.DrawFn) -> list[list[int]]:
    """Parts of the numbers of the five passes, none empty, in any order."""
    order = draw(st.permutations(range(5)))
    cuts = sorted(draw(st.sets(st.integers(1, 4))))
    return [list(part) for part in np.split(np.array(order), cuts)]


def merge_all(parts: list[SiteStatistics]) -> SiteStatistics:
    """Pairwise from both ends: neither a chain of the first nor of the last."""
    while len(parts) > 1:
        last = parts.pop()
        parts[0].merge(last)
        parts = parts[1:] + parts[:1]
    return parts[0]


def is_same(one: Any, other: Any) -> bool:
    """Equal, sums to 1e-12 relative to the values that they sum up."""
    if isinstance(one, float) and isinstance(other, float):
        return (
            one == other
            or (one != one and other != other)
            or math.isclose(one, other, rel_tol=1e-12, abs_tol=1e-12)
        )
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(is_same(one[k], other[k]) for k in one)
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(is_same, one, other))
    if hasattr(one, "__dataclass_fields__"):
        return type(one) is type(other) and all(
            is_same(getattr(one, name), getattr(other, name)) for name in one.__dataclass_fields__
        )
    return bool(one == other)


def list_differences(one: Measurements, other: Measurements) -> Iterator[str]:
    for column in ("norms", "stream", "growth", "closure", "replay", "head_input"):
        mine, theirs = getattr(one, column), getattr(other, column)
        if isinstance(mine, dict):
            yield from (f"{column}.{id}" for id in mine.keys() | theirs.keys()
                        if not is_same(mine.get(id), theirs.get(id)))  # fmt: skip
        elif not is_same(mine, theirs):
            yield column


SEQUENCES = [InputSequence(None, None, None, None)] * 7


@pytest.mark.parametrize("kind", KINDS)
@settings(deadline=None, max_examples=15)
@given(partition=partitions())
def test_of_all_sites(kind: str, partition: list[list[int]]) -> None:
    passes = PASSES[kind]
    whole = accumulate_passes(passes)
    merged = merge_all([accumulate_passes([passes[i] for i in part]) for part in partition])
    assert list(list_differences(whole.compute(MEASURES), merged.compute(MEASURES))) == []
    assert merged.first_pass is not None and merged.first_pass.graph is passes[0][0].graph
    assert merged.list_skipped() == whole.list_skipped()
    assert is_same(merged.branch_peaks.compute(), whole.branch_peaks.compute())
    assert is_same(merged.compute_traces(SEQUENCES), whole.compute_traces(SEQUENCES))
    for statistics in (whole, merged):
        ranges = {id: add.extremes.compute() for id, add in statistics.add_accumulators.items()}
        assert is_same(
            ranges, {id: add.extremes.compute() for id, add in whole.add_accumulators.items()}
        )
    for _, sequences in passes:
        assert merged.is_finite(sequences) == whole.is_finite(sequences)


def test_the_cases_are_what_they_are_for() -> None:
    whole = {kind: accumulate_passes(passes) for kind, passes in PASSES.items()}
    nonfinite = whole["nonfinite"].compute(MEASURES).stream["blocks.0/add#0"]
    assert math.isnan(nonfinite.max_abs)
    assert (nonfinite.max_token.sequence, nonfinite.max_token.position) == (3, 3)
    assert nonfinite.nonfinite == 3
    skipped = [line for line in whole["changing"].list_skipped() if "some inputs only" in line.why]
    assert len(skipped) == 1
    add = whole["half"].add_accumulators["blocks.0/add#0"].extremes.compute()
    assert add.dtypes is not None and add.dtypes.out == "bfloat16" and add.written_elements > 0
    assert whole["plain"].branch_peaks.compute().inner


@settings(deadline=None, max_examples=10)
@given(partition=partitions())
def test_of_what_another_process_sent(partition: list[list[int]]) -> None:
    passes = PASSES["plain"]
    whole, merged = accumulate_passes(passes), accumulate_passes(passes[:1])
    for part in partition:
        others = accumulate_passes([passes[i] for i in part if i])
        merged.accumulators.merge(pickle.loads(pickle.dumps(others.accumulators)))
    assert list(list_differences(whole.compute(MEASURES), merged.compute(MEASURES))) == []


def test_what_is_sent_is_small() -> None:
    """Rows of a pass lie in shared blocks of memory, which are left behind."""
    accumulators = accumulate_passes(PASSES["plain"]).accumulators
    assert len(pickle.dumps(accumulators)) < 300_000


def test_a_merge_leaves_the_other_as_it_is() -> None:
    passes = PASSES["plain"]
    one, other = accumulate_passes(passes[:2]), accumulate_passes(passes[2:])
    before = other.compute(MEASURES)
    one.merge(other)
    one.update(copy_pass(passes[2][0]), (99,))
    assert list(list_differences(other.compute(MEASURES), before)) == []
    assert list(list_differences(one.compute(MEASURES), before)) != []


NUMBERS = st.floats(allow_nan=True, allow_infinity=True, width=32) | st.sampled_from([0.0, 1.0])


@settings(deadline=None)
@given(data=st.data())
def test_of_the_largest_element(data: st.DataObject) -> None:
    """Identical in value and place, whatever is equal or not a number."""
    values = np.array(data.draw(st.lists(NUMBERS, min_size=1, max_size=12)))
    places = np.array(data.draw(st.permutations(range(len(values)))), dtype=float)
    batches = np.array_split(data.draw(st.permutations(range(len(values)))), 4)

    def update(largest: LargestElement, rows: Any) -> LargestElement:
        chosen = np.array(rows, dtype=int)
        largest.update(values[chosen], places[chosen] // 3, places[chosen], places[chosen])
        return largest

    whole, merged = update(LargestElement(), range(len(values))), LargestElement()
    for batch in batches:
        merged.merge(update(LargestElement(), batch))
    assert is_same(merged.compute(), whole.compute())
    assert whole.value is not None
    is_largest = np.isnan(values) if np.isnan(values).any() else values == values.max()
    assert whole.place[1] == places[is_largest].min()


@settings(deadline=None)
@given(data=st.data())
def test_of_token_statistics(data: st.DataObject) -> None:
    """Sums to 1e-12 of the magnitudes, extremes identical, quantiles within the stated error."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(quantiles, "EXACT", 16)
        numbers = st.floats(-1e6, 1e6, allow_subnormal=False)
        values = np.array(data.draw(st.lists(numbers, min_size=1, max_size=60)))
        batches = np.array_split(data.draw(st.permutations(values.tolist())), 5)
        whole, merged = TokenStatistics(), TokenStatistics()
        whole.update(values)
        for batch in data.draw(st.permutations(batches)):
            part = TokenStatistics()
            part.update(np.array(batch))
            merged.merge(part)
        one, other = whole.compute(), merged.compute()
        assert merged.count == whole.count
        assert abs(merged.total - whole.total) <= 1e-12 * np.abs(values).sum()
        assert (one.min, one.max, one.quantiles) == (other.min, other.max, other.quantiles)
        lower = np.quantile(values, 0.5, method="lower")
        upper = np.quantile(values, 0.5, method="higher")
        slack = RELATIVE_ERROR * max(abs(lower), abs(upper))
        assert lower - slack <= one.median <= upper + slack


@given(st.permutations(range(6)), st.integers(0, 6))
def test_of_the_earliest_pass(order: list[int], cut: int) -> None:
    one: EarliestPass[str] = EarliestPass()
    other: EarliestPass[str] = EarliestPass()
    for part, numbers in ((one, order[:cut]), (other, order[cut:])):
        for number in numbers:
            part.update((number + 10, number), f"pass {number}")
    other.merge(one)
    assert other.compute() == "pass 0"
