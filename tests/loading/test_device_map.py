"""Checkpoints whose weights stay on disk, against the same in memory."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import normdiag
from normdiag.errors import LoadError, UsageError
from normdiag.report.report import Report

MEASURES = ("stream", "norms", "depth", "precision", "invariances")
DERIVATIVES = {"gradients", "block-jacobians"}


@pytest.fixture(scope="module")
def in_memory(llama_dir: Path) -> Report:
    return normdiag.inspect(str(llama_dir), measure=MEASURES)


@pytest.fixture(scope="module")
def on_disk(llama_dir: Path) -> Report:
    return normdiag.inspect(str(llama_dir), measure=MEASURES, device_map="disk")


@pytest.fixture
def pickled(llama_dir: Path, tmp_path: Path) -> Path:
    """The same weights in a format that cannot be read one tensor at a time."""
    for path in llama_dir.glob("*.json"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    weights = load_file(llama_dir / "model.safetensors")
    tied = weights | {"lm_head.weight": weights["model.embed_tokens.weight"]}
    torch.save(weights if "lm_head.weight" in weights else tied, tmp_path / "pytorch_model.bin")
    return tmp_path


def test_every_number_is_that_of_the_model_in_memory(in_memory: Report, on_disk: Report) -> None:
    assert on_disk.architecture == in_memory.architecture
    assert on_disk.coverage.operations == in_memory.coverage.operations
    for name in ("stream", "norms", "norm_swap", "branch_weights", "precision", "weights"):
        assert getattr(on_disk.measurements, name) == getattr(in_memory.measurements, name), name
    assert on_disk.subject.weights_digest == in_memory.subject.weights_digest
    assert on_disk.subject.parameters == in_memory.subject.parameters
    assert on_disk.subject.device == "cpu"
    assert "parameters (100% of their bytes) are offloaded" in (on_disk.subject.probe.note or "")


def test_what_needs_all_weights_at_once_is_named(llama_dir: Path) -> None:
    report = normdiag.inspect(str(llama_dir), device_map="disk")
    skipped = {each.what: each.why for each in report.coverage.skipped}
    assert skipped.keys() == DERIVATIVES
    assert all("in memory at once" in why for why in skipped.values())
    assert report.measurements.gradients is None and not report.measurements.blocks


def test_a_part_on_disk_is_what_the_limit_leaves_out(llama_dir: Path, in_memory: Report) -> None:
    report = normdiag.inspect(
        str(llama_dir), measure=("stream",), device_map="auto", max_memory="cpu=80kB"
    )
    assert "are offloaded" in (report.subject.probe.note or "")
    assert report.measurements.stream == in_memory.measurements.stream


def test_what_fits_is_not_offloaded(llama_dir: Path) -> None:
    report = normdiag.inspect(str(llama_dir), measure=("stream", "gradients"), device_map="auto")
    assert "offloaded" not in (report.subject.probe.note or "")
    assert report.measurements.gradients is not None


def test_weights_that_must_be_written_lie_in_the_folder(
    pickled: Path, in_memory: Report, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("offload")
    report = normdiag.inspect(
        str(pickled), measure=("stream",), device_map="disk", offload_folder=folder
    )
    assert report.measurements.stream == in_memory.measurements.stream
    assert [*folder.iterdir()]


def test_a_temporary_folder_is_gone_afterwards(
    pickled: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path_factory.mktemp("scratch")
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    normdiag.inspect(str(pickled), measure=("stream",), device_map="disk")
    assert [*scratch.iterdir()] == []


def test_a_full_folder_ends_in_one_message(pickled: Path) -> None:
    """The limit on the size of files stands for a disk without space."""
    command = ("inspect", str(pickled), "--device-map", "disk", "--measure", "stream")
    done = subprocess.run(
        [sys.executable, "-m", "normdiag", *command],
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)),
    )
    assert (done.returncode, done.stdout) == (3, "")
    first, second = done.stderr.splitlines()
    assert first.startswith("error: LlamaForCausalLM cannot be loaded with device_map 'disk'")
    assert "offload_folder, which needs free space" in second


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"max_memory": "cpu=1GB"}, "max_memory says how a device map places"),
        ({"offload_folder": "there"}, "offload_folder says how a device map places"),
        ({"device_map": "disk", "random_init": True}, "random_init and device_map exclude"),
        ({"device_map": "disk", "weights_only": True}, "weights_only and device_map exclude"),
        ({"device_map": "auto", "device": "meta"}, "contradict each other"),
        ({"device_map": "everywhere"}, "invalid option: device_map"),
        ({"device_map": "auto", "max_memory": "gpu=1GB"}, "names a device 'gpu'"),
        ({"device_map": "auto", "max_memory": "cpu=much"}, "'much' is no size"),
        ({"device_map": "auto", "max_memory": "cpu"}, "'' is no size"),
    ],
)
def test_contradictions_are_refused(llama_dir: Path, options: dict, what: str) -> None:
    with pytest.raises(UsageError, match=what):
        normdiag.inspect(str(llama_dir), **options)


def test_only_checkpoints_of_transformers_are_placed(llama_dir: Path) -> None:
    with pytest.raises(UsageError, match="only a checkpoint directory or a hub id"):
        normdiag.inspect("sample_models/pre_norm.py:build", device_map="disk")
    with pytest.raises(UsageError, match="only a checkpoint directory or a hub id"):
        normdiag.inspect(str(llama_dir / "model.safetensors"), device_map="auto")


def test_a_map_that_does_not_fit_names_the_remedy(llama_dir: Path) -> None:
    if torch.accelerator.is_available():
        pytest.skip("this machine may have the device")
    with pytest.raises(LoadError, match="device_map 'auto'") as raised:
        normdiag.inspect(str(llama_dir), device_map="auto", max_memory={3: "1GB"})
    assert "devices of this machine" in (raised.value.hint or "")
