"""The first sequence of a batch, cut to its first tokens."""

import pytest
import torch

from normdiag.inputs.batch import Batch
from normdiag.inputs.truncation import truncate_batch


def ids(sequences=3, positions=10):
    return torch.arange(sequences * positions).reshape(sequences, positions)


def test_ids_masks_and_embeddings_are_truncated():
    batch = Batch(
        inputs={
            "input_ids": ids(),
            "attention_mask": torch.ones(3, 10, dtype=torch.long),
            "inputs_embeds": torch.randn(3, 10, 4),
            "use_cache": False,
            "labels": None,
        },
        rows=(4, 5, 6),
        texts=("a", "b", "c"),
        ids=tuple(map(tuple, ids().tolist())),
        tokens=(tuple("abcdefghij"),) * 3,
        special=((True,) + (False,) * 9,) * 3,
    )
    short = truncate_batch(batch, 4)
    assert torch.equal(short.inputs["input_ids"], ids()[:1, :4])
    assert short.inputs["attention_mask"].shape == (1, 4)
    assert torch.equal(short.inputs["inputs_embeds"], batch.inputs["inputs_embeds"][:1, :4])
    assert short.inputs["use_cache"] is False
    assert short.inputs["labels"] is None
    assert short.rows == (4,)
    assert short.texts == ("a",)
    assert short.ids == ((0, 1, 2, 3),)
    assert short.tokens == (("a", "b", "c", "d"),)
    assert short.special == ((True, False, False, False),)


def test_positional_arguments_are_truncated():
    assert torch.equal(truncate_batch(Batch(args=(ids(),)), 3).args[0], ids()[:1, :3])


def test_a_shorter_sequence_stays_whole():
    assert truncate_batch(Batch(inputs={"input_ids": ids(2, 3)}), 8).inputs["input_ids"].shape == (
        1,
        3,
    )


def test_padding_on_the_left_is_passed_over():
    mask = torch.tensor([[0, 0, 0, 1, 1, 1, 1, 1, 1, 1]] * 3)
    batch = Batch(inputs={"input_ids": ids(), "attention_mask": mask}, ids=(tuple(range(10)),) * 3)
    short = truncate_batch(batch, 4)
    assert short.inputs["input_ids"].tolist() == [[3, 4, 5, 6]]
    assert short.inputs["attention_mask"].tolist() == [[1, 1, 1, 1]]
    assert short.ids == ((3, 4, 5, 6),)


def test_a_decoder_has_its_own_length_and_mask():
    mask = torch.tensor([[0, 0, 1, 1, 1, 1]])
    inputs = {
        "input_ids": ids(1, 10),
        "decoder_input_ids": ids(1, 6),
        "decoder_attention_mask": mask,
    }
    short = truncate_batch(Batch(inputs=inputs), 3).inputs
    assert short["input_ids"].tolist() == [[0, 1, 2]]
    assert short["decoder_input_ids"].tolist() == [[2, 3, 4]]


@pytest.mark.parametrize(
    "inputs",
    [
        {"pixel_values": torch.randn(2, 3, 8, 8)},
        {"x": torch.randn(6, 8)},
        {"input_ids": ids(2, 4), "pixel_values": torch.randn(2, 3, 8, 8)},
        {"input_ids": ids(2, 4), "past": [torch.zeros(2, 4)]},
    ],
)
def test_a_batch_of_more_than_tokens_is_unchanged(inputs):
    batch = Batch(inputs=inputs)
    assert truncate_batch(batch, 2) is batch
