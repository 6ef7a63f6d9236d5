"""Forwards of a model in hand: no weights are read, no second model is built, nothing is left."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from normdiag.errors import UsageError
from normdiag.inputs.batch import Batch
from normdiag.loading import omitted_settings, reinitialised
from normdiag.measure import observe, weights
from normdiag.measure.forwards import measure_forward
from normdiag.measure.settings import ForwardSettings
from normdiag.measures import DEFAULT_MEASURES
from tests.measure.test_fine_measures import model
from tests.test_untouched import changes, state


def batch(*rows: int) -> Batch:
    ids = torch.arange(3, 15).repeat(len(rows), 1)
    return Batch(inputs={"input_ids": ids}, rows=rows)


def test_it_measures_what_inspect_measures() -> None:
    import normdiag

    inspected = normdiag.inspect(
        model(), inputs={"input_ids": torch.arange(3, 15).view(1, 12)}, measure="stream-adds,norms"
    )
    measured = measure_forward(model(), [batch(0)], ["stream-adds", "norms"]).measurements
    assert measured.stream == inspected.measurements.stream
    assert measured.norms == inspected.measurements.norms
    assert measured.growth == inspected.measurements.growth
    assert measured.weights is None


def test_no_digest_and_no_second_model(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: object, **kwargs: object) -> None:
        raise AssertionError("not part of a forward")

    for module, name in (
        (weights, "check_tensors"),
        (observe, "check_tensors"),
        (observe, "measure_defaults"),
        (observe, "compare_growth_with_init"),
        (observe, "find_float32_peak"),
        (reinitialised, "reinitialise_model"),
        (omitted_settings, "build_on_meta"),
    ):
        monkeypatch.setattr(module, name, fail)
    monkeypatch.setattr(type(model()), "_from_config", fail)
    monkeypatch.setattr(nn.Module, "state_dict", fail)
    names = (*DEFAULT_MEASURES, "defaults")
    measured = measure_forward(model(), [batch(0)], names).measurements
    assert measured.gradients is not None and measured.blocks and measured.layers
    (growth,) = measured.growth.values()
    assert growth.init_total is None and growth.init_note is None


def test_a_model_in_training_is_left_as_it_was() -> None:
    live = model().train()
    try:
        before = state(live)
        measure_forward(live, [batch(0)], ["stream-adds", "norm-inputs"])
        assert changes(before, state(live)) == []
    finally:
        live.eval()


def test_several_batches_are_one_measurement() -> None:
    one = measure_forward(model(), [batch(0, 1)], ["stream-adds"]).measurements
    two = measure_forward(model(), [batch(0), batch(1)], ["stream-adds"]).measurements
    for id, add in one.stream.items():
        assert two.stream[id].tokens == add.tokens == 24
        assert two.stream[id].out_norm.mean == pytest.approx(add.out_norm.mean, rel=1e-6)


def test_settings() -> None:
    settings = ForwardSettings(clip=0.5, keep_tokens=True)
    forward = measure_forward(model(), [batch(0)], ["gradients", "stream-adds"], settings)
    assert forward.measurements.gradients is not None
    assert forward.measurements.gradients.clipping is not None
    assert forward.measurements.gradients.clipping.max_norm == 0.5


def test_nothing_to_run_and_an_unknown_measure_are_refused() -> None:
    with pytest.raises(UsageError, match="nothing to run"):
        measure_forward(model(), [], ["stream"])
    with pytest.raises(UsageError, match="weather"):
        measure_forward(model(), [batch(0)], ["weather"])


class Spoiled(nn.Module):
    """A value that is not finite inside, at a site or in the output alone."""

    def __init__(self, at: str) -> None:
        super().__init__()
        self.at = at
        self.norm, self.inner = nn.LayerNorm(8), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.inner(self.norm(x))
        if self.at == "add":
            y = y / torch.zeros_like(y)
        y = x + y
        y = torch.where(y.isfinite(), y, torch.zeros_like(y))
        return y.log() if self.at == "output" else y


@pytest.mark.parametrize("at", ["add", "output"])
@pytest.mark.parametrize("measures", [(), ("gradients",), ("stream-adds",), ("norm-inputs",)])
def test_the_first_nonfinite_value_is_always_looked_for(at: str, measures) -> None:
    torch.manual_seed(0)
    inputs = Batch(args=(torch.randn(2, 3, 8),), rows=(0, 1))
    forward = measure_forward(Spoiled(at), [inputs], measures)
    first = forward.measurements.first_nonfinite
    assert first is not None and forward.nonfinite_batch is inputs
    assert first.operation == ("div" if at == "add" else "log")


def test_finite_values_are_not_searched() -> None:
    inputs = Batch(args=(torch.randn(2, 3, 8),), rows=(0, 1))
    assert measure_forward(Spoiled(""), [inputs], ()).measurements.first_nonfinite is None
