"""One way to run a model under a recorder, and what it leaves behind."""

from contextlib import contextmanager

import pytest
import torch
from torch import nn

from normdiag.errors import RunError
from normdiag.inputs.batch import Batch
from normdiag.measure.passes.recorded_forward import record_forward
from normdiag.measure.passes.structure_observer import StructureObserver


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln, self.fc, self.drop = nn.LayerNorm(4), nn.Linear(4, 4), nn.Dropout()

    def forward(self, x, mask=None):
        return x + self.drop(self.fc(self.ln(x)))


def example_batch():
    return Batch(args=(torch.randn(2, 3, 4),), inputs={"mask": torch.ones(2, 3)})


def test_the_graph_knows_inputs_modules_and_sites():
    observer = StructureObserver()
    with torch.no_grad():
        output, graph = record_forward(Block(), example_batch(), observer)
    assert graph.inputs == ["argument 0", "mask"]
    assert graph.calls == {"": 1, "ln": 1, "fc": 1, "drop": 1}
    assert (len(observer.reader.detected_norms), len(observer.reader.detected_adds)) == (1, 1)
    assert output.shape == (2, 3, 4)


def test_the_model_runs_in_eval_mode_and_is_left_in_its_own():
    model, batch = Block().train(), example_batch()
    model.ln.eval()
    with torch.no_grad():
        output, _ = record_forward(model, batch, StructureObserver())
        assert torch.equal(output, batch.args[0] + model.fc(model.ln(batch.args[0])))
    assert [module.training for module in model.modules()] == [True, False, True, True]


def test_a_mode_is_entered_for_the_forward_alone():
    events = []

    @contextmanager
    def mode():
        events.append("enter")
        yield
        events.append("exit")

    model = Block()
    model.register_forward_hook(lambda *_: events.append("forward"))
    record_forward(model, example_batch(), StructureObserver(), mode())
    assert events == ["enter", "forward", "exit"]


def test_an_error_of_forward_lists_the_arguments():
    batch = Batch(args=(torch.randn(2, 3),))
    with pytest.raises(RunError) as error:
        record_forward(Block(), batch, StructureObserver())
    assert "argument 0 float32[2, 3] and also takes mask" in error.value.hint


def test_learned_values_without_values_are_not_stored():
    observer = StructureObserver()
    record_forward(Block().to("meta"), Batch(args=(torch.randn(2, 3, 4, device="meta"),)), observer)
    assert len(observer.reader.detected_norms) == 1
    assert observer.learned.values == {}
