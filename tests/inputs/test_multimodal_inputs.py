"""Inputs made up from a model's own facts: every tower runs, or it is message that it does not."""

from __future__ import annotations

from functools import cache

import pytest
import torch
from torch import nn

import normdiag
from normdiag.errors import RunError
from normdiag.evidence.subject import InputSummary
from normdiag.inputs.batch import Batch
from normdiag.inputs.model_inputs import build_inputs
from normdiag.loading.factory import wrap_module
from normdiag.options import InputOptions
from tests.structure.families.family import Family, families

ALONE = {
    "pixel_values": [
        "vit",
        "swin",
        "videomae",
        "vivit",
        "timesformer",
        "d_fine",
        "hy_v4_vl_vision",
    ],
    "pixel_values_videos": ["vjepa2"],
    "hidden_states": ["glm4v_vision"],
    "input_features": [
        "lasr_ctc",
        "canary",
        "glmasr_encoder",
        "granite_speech5_encoder",
        "audioflamingo3_encoder",
    ],
    "audio_mel": ["gemma3n_audio"],
    "input_values": ["hubert", "encodec", "dac", "moonshine", "audio-spectrogram-transformer"],
    "past_values": ["informer", "autoformer", "time_series_transformer", "patchtst"],
    "input_ids": ["bros", "udop", "lxmert", "bart", "encoder-decoder"],
}
"""Types by what they are about."""
TWO_INPUTS = ["clip", "flava", "siglip", "siglip2", "vilt", "layoutlmv3", "blip"]
"""An image beside the text."""
IN_TEXT = [
    "llava",
    "gemma3",
    "glm4v",
    "internvl",
    "janus",
    "smolvlm",
    "audioflamingo3",
    "qwen2_vl",
    "qwen3_vl",
]
"""An image or audio in place of tokens of the text."""


@cache
def every() -> dict[str, Family]:
    return families("a_to_l") | families("m_to_z")


def known_names(names: list[str]) -> list[str]:
    return [name for name in names if name in every()]


def build_family_inputs(name: str) -> tuple[nn.Module, tuple[Batch, ...], InputSummary]:
    model, _ = every()[name].build()
    batches, probe, _ = build_inputs(wrap_module(model), InputOptions())
    return model, batches, probe


def idle(model: nn.Module, batches: tuple[Batch, ...]) -> set[str]:
    """The parts of a model in which no module ran."""
    ran: set[str] = set()
    for path, module in model.named_modules():
        module.register_forward_hook(lambda *_, path=path: ran.add(path.partition(".")[0]))
    with torch.no_grad():
        for batch in batches:
            model(*batch.args, **batch.inputs)
    return {name for name, part in model.named_children() if [*part.parameters()]} - ran


@pytest.mark.parametrize(
    ("about", "name"), [(about, name) for about in ALONE for name in known_names(ALONE[about])]
)
def test_one_input(about: str, name: str) -> None:
    model, batches, _ = build_family_inputs(name)
    assert about in batches[0].inputs
    idle(model, batches)


@pytest.mark.parametrize("name", known_names(TWO_INPUTS))
def test_an_image_beside_the_text(name: str) -> None:
    model, batches, probe = build_family_inputs(name)
    assert {"input_ids", "pixel_values"} <= set(batches[0].inputs)
    assert "images" in str(probe.note)
    idle(model, batches)


@pytest.mark.parametrize("name", known_names(IN_TEXT))
def test_an_image_or_audio_in_the_text(name: str) -> None:
    model, batches, probe = build_family_inputs(name)
    assert "first sequence with seeded noise as" in str(probe.note)
    assert not any("tower" in part or "vis" in part for part in idle(model, batches))
    assert [row for batch in batches for row in batch.rows] == list(range(probe.sequences))


def test_a_report_shows_both_encoders() -> None:
    report = normdiag.inspect(every()["llava"].build()[0], measure=())
    stacks = {stack.id.partition(".")[0] for stack in report.architecture.stacks}
    assert stacks == {"vision_tower", "language_model"}
    assert "vision_tower" not in report.coverage.modules_not_called


def test_an_encoder_that_needs_more_is_noted() -> None:
    model = every()["llava_next"].build()[0]
    report = normdiag.inspect(model, measure=())
    assert "no image input: the model rejects seeded noise" in str(report.subject.probe.note)
    assert report.coverage.modules_not_called[0] == "vision_tower"


def test_trying_leaves_the_model_as_it_was() -> None:
    model, _ = every()["llava"].build()
    model.train()
    model.language_model.eval()
    modes = [module.training for module in model.modules()]
    before = torch.get_rng_state()
    build_inputs(wrap_module(model), InputOptions())
    assert [module.training for module in model.modules()] == modes
    assert torch.equal(torch.get_rng_state(), before)


def test_user_inputs_get_no_additions() -> None:
    model, _ = every()["llava"].build()
    batches, _, _ = build_inputs(wrap_module(model), InputOptions(ids=((1, 2, 3),)))
    assert [set(batch.inputs) for batch in batches] == [{"input_ids"}]


def test_without_values_no_image_is_put_into_the_text() -> None:
    model = every()["llava"].build()[0].to("meta")
    batches, probe, _ = build_inputs(wrap_module(model, structure_only=True), InputOptions())
    assert len(batches) == 1
    assert "no image input: the parameters are on the meta device" in str(probe.note)


def test_masks_and_grids_say_that_all_is_there() -> None:
    _, (audio,), _ = build_family_inputs("audioflamingo3_encoder")
    assert audio.inputs["input_features_mask"].all()
    assert audio.inputs["input_features_mask"].shape[1] == audio.inputs["input_features"].shape[2]
    _, (image,), _ = build_family_inputs("glm4v_vision")
    assert len(image.inputs["hidden_states"]) == image.inputs["grid_thw"].prod(-1).sum()


def test_the_error_of_a_forward_lists_what_else_it_takes() -> None:
    model, _ = every()["clap"].build()
    with pytest.raises(RunError, match="NoneType") as caught:
        normdiag.inspect(model)
    assert "also takes input_features, is_longer" in str(caught.value.hint)
