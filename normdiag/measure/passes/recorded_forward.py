"""The one way in which a model runs under a recorder."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from torch import nn

from normdiag.capture.frozen_gc import frozen_gc
from normdiag.capture.recorder import OperationObserver, Recorder
from normdiag.capture.scopes import Scopes
from normdiag.graph import Graph
from normdiag.inputs.batch import Batch
from normdiag.inputs.tensors import iterate_input_tensors
from normdiag.loading.offloaded_weights import follow_offloaded_weights
from normdiag.measure.passes.model_call import call_model, quiet_model


def record_forward(
    model: nn.Module,
    batch: Batch,
    observer: OperationObserver,
    mode: AbstractContextManager[Any] | None = None,
) -> tuple[Any, Graph]:
    """Run `model(*args, **inputs)` once and show every operation to `observer`.

    `mode` is entered for the forward alone, outside the recorder. Whether autograd follows is up to
    the caller. Returns the model's output and the graph of the forward.

    Raises:
        RunError: forward raised.
    """
    with quiet_model(model), Scopes(model) as scopes:
        recorder = Recorder(model, scopes, observer)
        recorder.bind_inputs(iterate_input_tensors(batch))
        offloading = follow_offloaded_weights(model, recorder)
        with offloading, mode or nullcontext(), frozen_gc(), recorder:
            output = call_model(model, batch)
    recorder.graph.calls = scopes.calls
    return output, recorder.graph
