"""The layout of a value: the decoder's where it derives from the decoder's inputs."""

import torch

from normdiag.graph import Frame, Node
from normdiag.inputs.batch import Batch
from normdiag.measure.statistics.token_layouts import TokenLayouts

BATCH = Batch(
    inputs={
        "input_ids": torch.zeros(2, 5, dtype=torch.long),
        "attention_mask": torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]]),
        "decoder_input_ids": torch.zeros(2, 3, dtype=torch.long),
    }
)


def value_of(*inputs):
    """A node that derives from the inputs of these numbers."""
    origins = sum(1 << i for i in inputs)
    return Node(0, "add", (), {}, (), (2, 5, 4), "float32", Frame("", 0, "", None), True, origins)


def test_values_of_the_encoder():
    layout = TokenLayouts(BATCH).layout_of(value_of(0, 1))
    assert (layout.sequences, layout.positions) == (2, 5)
    assert layout.site_tokens((2, 5)).valid.tolist() == [0, 1, 2, 5, 6, 7, 8, 9]


def test_values_of_the_decoder_and_of_both():
    layouts = TokenLayouts(BATCH)
    for node in (value_of(2), value_of(0, 2)):
        layout = layouts.layout_of(node)
        assert (layout.sequences, layout.positions) == (2, 3)
        assert layout.site_tokens((2, 3)).valid is None


def test_a_mask_of_another_length_is_no_padding():
    batch = Batch(
        inputs={
            "input_ids": torch.zeros(1, 2, dtype=torch.long),
            "attention_mask": torch.tensor([[1, 0, 1, 1]]),
        }
    )
    assert TokenLayouts(batch).layout_of(value_of(0)).site_tokens((1, 2)).valid is None


def test_without_inputs_of_tokens():
    layout = TokenLayouts(Batch(args=(torch.zeros(2, 3, 8),))).layout_of(value_of(0))
    assert (layout.sequences, layout.positions) == (0, 0)
