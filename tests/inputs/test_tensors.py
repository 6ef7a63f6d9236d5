"""Tensors of nested arguments, with the names of the arguments."""

import torch

from normdiag.inputs.batch import Batch
from normdiag.inputs.tensors import iterate_input_tensors, map_input_tensors

BATCH = Batch(
    args=(torch.zeros(1), 3),
    inputs={"x": {"a": torch.ones(1), "b": (torch.ones(2), None)}, "flag": True, "rows": [0.5]},
    rows=(4,),
)


def test_every_tensor_has_the_name_of_its_argument():
    names = [(name, tensor.numel()) for name, tensor in iterate_input_tensors(BATCH)]
    assert names == [("argument 0", 1), ("x", 1), ("x", 2)]


def test_mapping_keeps_all_else():
    mapped = map_input_tensors(BATCH, lambda tensor: tensor + 1)
    assert mapped.args[0].item() == 1
    assert mapped.args[1] == 3
    assert mapped.inputs["x"]["b"][0].tolist() == [2, 2]
    assert mapped.inputs["x"]["b"][1] is None
    assert (mapped.inputs["flag"], mapped.inputs["rows"], mapped.rows) == (True, [0.5], (4,))
    assert BATCH.args[0].item() == 0
