"""A checkpoint against copies of it in other formats: rounding is no difference, the order is."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM

import normdiag
from normdiag.render.interface import Options
from normdiag.render.pages.comparison import build_comparison

IDS = ((7, 3, 12, 40, 9, 22, 5, 31),)
MEASURE = ("stream", "norms")
DTYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16}
Tensors = dict[str, Tensor]
Q, V = (f"model.layers.1.self_attn.{name}_proj.weight" for name in "qv")
TABLE = "model.embed_tokens.weight"


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Float32; gains that are all the same value, and weights of few levels: both are rounded with
    a bias."""
    config = LlamaConfig(
        vocab_size=64, hidden_size=48, intermediate_size=96, num_hidden_layers=3,
        num_attention_heads=4, num_key_value_heads=4, torch_dtype="float32",
    )  # fmt: skip
    torch.manual_seed(1)
    model = LlamaForCausalLM(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.fill_(0.7)
            else:
                parameter.copy_((torch.randn(parameter.shape) * 20).round() * 0.00437)
    path = tmp_path_factory.mktemp("checkpoint")
    model.save_pretrained(path)
    return path


def store_copy(source: Path, path: Path, change: Callable[[Tensors], None], dtype: str) -> Path:
    """A copy whose tensors are stored in `dtype`; the configuration still asks for float32."""
    shutil.copytree(source, path)
    (file,) = path.glob("*.safetensors")
    tensors = load_file(file)
    change(tensors)
    of_dtype = {name: t.to(DTYPES.get(dtype, t.dtype)).clone() for name, t in tensors.items()}
    save_file(of_dtype, file, metadata={"format": "pt"})
    return path


def keep_values(tensors: Tensors) -> None:
    assert tensors


def exchange(tensors: Tensors) -> None:
    tensors[Q], tensors[V] = tensors[V], tensors[Q]


def swap_halves(tensors: Tensors) -> None:
    tensors[Q] = tensors[Q].roll(24, 0)


def transpose(tensors: Tensors) -> None:
    tensors[Q] = tensors[Q].T.contiguous()


def inspect(path: Path) -> normdiag.Report:
    return normdiag.inspect(str(path), measure=MEASURE, ids=IDS)


@pytest.mark.parametrize("dtype", [*DTYPES, "float32"])
def test_another_format_on_disk_is_rounding(directory: Path, tmp_path: Path, dtype: str) -> None:
    copy = store_copy(directory, tmp_path / "copy", keep_values, dtype)
    comparison = normdiag.compare(str(directory), str(copy), measure=MEASURE, ids=IDS)
    assert comparison.differences == ()
    if dtype == "float32":
        assert "streams and outputs are equal" in comparison.headline and comparison.note is None
        return
    assert comparison.headline.startswith(f"no difference beyond rounding in {dtype}")
    assert comparison.note == f"stored in float32 in A, in {dtype} in B"
    assert max(site.out.median for site in comparison.stream) > 1e-5


@pytest.mark.parametrize("dtype", [*DTYPES, "float32"])
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (exchange, f"the tensors {Q} and {V} are exchanged"),
        (swap_halves, f"the weight {Q} has the same values in another order: its rows"),
        (transpose, f"the weight {Q} has the same values in another order: it is transposed"),
    ],
)
def test_another_order_is_named_in_any_format(
    directory: Path, tmp_path: Path, change: Callable[[Tensors], None], words: str, dtype: str
) -> None:
    copy = store_copy(directory, tmp_path / "copy", change, dtype)
    (order,) = (
        each
        for each in normdiag.compare(inspect(directory), inspect(copy)).differences
        if each.kind == "weight-order"
    )
    assert order.message.startswith(words)


def test_a_value_that_nothing_reads_is_a_difference(directory: Path, tmp_path: Path) -> None:
    def change(tensors: Tensors) -> None:
        assert all(60 not in row for row in IDS)
        tensors[TABLE][60] *= 2

    copy = store_copy(directory, tmp_path / "copy", change, "float32")
    comparison = normdiag.compare(str(directory), str(copy), measure=MEASURE, ids=IDS)
    (difference,) = comparison.differences
    assert difference.kind == "tensors" and difference.a == (TABLE,)
    assert comparison.first_divergence is None


def test_a_buffer_that_is_not_stored(directory: Path, tmp_path: Path) -> None:
    copy = store_copy(directory, tmp_path / "copy", keep_values, "float32")
    config = json.loads((copy / "config.json").read_text())
    config |= {"rope_theta": 5e5, "rope_parameters": {"rope_type": "default", "rope_theta": 5e5}}
    (copy / "config.json").write_text(json.dumps(config))
    comparison = normdiag.compare(str(directory), str(copy), measure=MEASURE, ids=IDS)
    buffers = {name for each in comparison.differences if each.kind == "buffer" for name in each.a}
    assert "model.rotary_emb.inv_freq" in buffers


class TestSavedReports:
    def test_sums_of_outputs_are_those_of_the_last_run(
        self, directory: Path, tmp_path: Path
    ) -> None:
        inspect(directory).save(tmp_path / "report.json")
        saved = normdiag.load_report(tmp_path / "report.json")
        assert saved.measurements.outputs["logits"]
        assert saved.measurements.outputs == inspect(directory).measurements.outputs
        comparison = normdiag.compare(saved, inspect(directory))
        assert comparison.headline.startswith("no difference: the streams and outputs are equal")

    @pytest.mark.parametrize("dtype", DTYPES)
    def test_rounded_outputs_agree_within_rounding(
        self, directory: Path, tmp_path: Path, dtype: str
    ) -> None:
        copy = inspect(store_copy(directory, tmp_path / "copy", keep_values, dtype))
        comparison = normdiag.compare(inspect(directory), copy)
        assert comparison.differences == () and comparison.equal_outputs == ("logits",)
        assert comparison.headline.startswith(f"no difference beyond rounding in {dtype}")
        text = str(build_comparison(comparison, Options()))
        assert f"logits: its sums agree within rounding in {dtype}" in text

    def test_other_inputs_are_said(self, directory: Path) -> None:
        other = normdiag.inspect(str(directory), measure=MEASURE, ids=((1, 2, 3),))
        comparison = normdiag.compare(inspect(directory), other)
        assert comparison.equal_outputs == ()
        assert comparison.not_compared == ("outputs: not compared (other inputs)",)
