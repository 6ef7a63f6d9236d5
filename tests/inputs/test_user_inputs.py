"""What the user gives, in Python and in files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from normdiag.errors import UsageError
from normdiag.inputs.input_requirements import collect_requirements
from normdiag.inputs.user_inputs import batches_from_inputs, read_inputs_file
from normdiag.loading.factory import wrap_module

IDS = torch.tensor([[1, 2, 3], [4, 5, 6]])


class TestPython:
    def test_a_dict_is_one_forward(self) -> None:
        mask = torch.ones(2, 3)
        (batch,) = batches_from_inputs(
            {"input_ids": IDS, "attention_mask": mask, "use_cache": False}
        )
        assert batch.inputs["input_ids"] is IDS
        assert batch.inputs["use_cache"] is False
        assert batch.ids == ((1, 2, 3), (4, 5, 6))
        assert batch.tokens == (("0", "1", "2"),) * 2
        assert batch.rows == (0, 1)

    def test_a_tuple_and_a_tensor_go_by_position(self) -> None:
        x = torch.ones(1, 2, 3)
        assert batches_from_inputs((x, IDS))[0].args == (x, IDS)
        assert batches_from_inputs(x)[0].args[0] is x
        assert batches_from_inputs(x)[0].ids is None

    def test_with_the_model_positions_have_names(self) -> None:
        (batch,) = batches_from_inputs(
            (IDS,), collect_requirements(wrap_module(torch.nn.Embedding(9, 2)))
        )
        assert torch.equal(batch.inputs["input"], IDS)
        assert batch.args == ()
        assert batch.ids == ((1, 2, 3), (4, 5, 6))

    def test_a_forward_that_states_no_arguments_keeps_positions(self) -> None:
        model = torch.nn.Linear(2, 2)
        model.forward = torch.add  # written in C
        (batch,) = batches_from_inputs((IDS, IDS), collect_requirements(wrap_module(model)))
        assert len(batch.args) == 2 and batch.inputs == {}

    def test_a_list_is_several_forwards(self) -> None:
        batches = batches_from_inputs([{"input_ids": IDS}, torch.ones(3, 2, 4)])
        assert [batch.rows for batch in batches] == [(0, 1), (2, 3, 4)]

    def test_a_tokenizers_output_is_taken(self) -> None:
        from transformers import BatchEncoding

        (batch,) = batches_from_inputs(BatchEncoding({"input_ids": IDS}))
        assert batch.inputs == {"input_ids": IDS}

    @pytest.mark.parametrize("wrong", [None, 3, "text", [], [3], {1: IDS}])
    def test_anything_else_is_a_usage_error(self, wrong: Any) -> None:
        with pytest.raises(UsageError, match="inputs"):
            batches_from_inputs(wrong)


class TestFiles:
    def test_safetensors_are_read_as_stored(self, tmp_path: Path) -> None:
        stored = {"input_ids": IDS, "x": torch.ones(2, dtype=torch.bfloat16)}
        save_file(stored, tmp_path / "in.safetensors")
        read = read_inputs_file(tmp_path / "in.safetensors")
        assert {k: (v.dtype, v.tolist()) for k, v in read.items()} == {
            k: (v.dtype, v.tolist()) for k, v in stored.items()
        }

    def test_json_keeps_whole_numbers_and_booleans(self, tmp_path: Path) -> None:
        content = {
            "input_ids": [[1, 2]],
            "attention_mask": [[True, False]],
            "x": [[1, 2.5]],
            "use_cache": False,
            "n": 3,
        }
        (tmp_path / "in.json").write_text(json.dumps(content))
        read = read_inputs_file(tmp_path / "in.json", torch.float16)
        assert {k: getattr(v, "dtype", v) for k, v in read.items()} == {
            "input_ids": torch.int64,
            "attention_mask": torch.bool,
            "x": torch.float16,
            "use_cache": False,
            "n": 3,
        }
        assert read["x"].tolist() == [[1.0, 2.5]]

    def test_an_array_is_several_forwards(self, tmp_path: Path) -> None:
        text = (
            '\ufeff[{"input_ids": [[1]]}, {"input_ids": [[2, 3]]}]'  # a byte order mark is no JSON
        )
        (tmp_path / "in.json").write_text(text, encoding="utf-8")
        batches = batches_from_inputs(read_inputs_file(tmp_path / "in.json"))
        assert [batch.ids for batch in batches] == [((1,),), ((2, 3),)]

    @pytest.mark.parametrize(
        ("name", "content", "message"),
        [
            ("in.txt", b"", "unknown suffix"),
            ("in.json", b"{", "cannot be read"),
            ("in.json", b"\xff", "cannot be read"),
            ("in.json", b"3", "is no object"),
            ("in.json", b"[3]", "is no object"),
            ("in.json", b'{"x": [[1], [2, 3]]}', "x cannot be converted to a tensor"),
            ("in.json", b'{"x": ["a"]}', "x cannot be converted to a tensor"),
            ("in.json", b'{"x": [1180591620717411303424]}', "x cannot be converted to a tensor"),
            ("in.safetensors", b"nothing", "cannot be read"),
        ],
    )
    def test_an_invalid_file_is_a_usage_error(
        self, tmp_path: Path, name: str, content: bytes, message: str
    ) -> None:
        (tmp_path / name).write_bytes(content)
        with pytest.raises(UsageError, match=message):
            read_inputs_file(tmp_path / name)

    @pytest.mark.parametrize("name", ["gone.json", "gone.safetensors"])
    def test_a_missing_file_is_a_usage_error(self, tmp_path: Path, name: str) -> None:
        with pytest.raises(UsageError, match=f"{name} cannot be read"):
            read_inputs_file(tmp_path / name)
