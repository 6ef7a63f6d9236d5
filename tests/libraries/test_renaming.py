"""Models of other libraries with every class, module and parameter renamed are found the same."""

from __future__ import annotations

import pytest

from tests.libraries.library_cases import find_model
from tests.structure.renaming import number_labels, rename_modules
from tests.structure.structures import architecture

TWELVE = """
    diffusers/flux diffusers/sd3 litgpt/gemma2 open_clip/coca timm/maxvit timm/swinv2 timm/volo
    timm/vit@qk_norm torch_nn/transformer@post torchvision/resnet18 x_transformers/encoder_decoder
    x_transformers/value_residual
"""


@pytest.mark.parametrize("title", TWELVE.split())
def test_names_decide_nothing(title: str) -> None:
    model, inputs = find_model(*title.split("/")).build()
    before = architecture(model, inputs)
    after = architecture(rename_modules(model, seed=len(title)), inputs)
    assert number_labels(after) == number_labels(before)
    old = {s.id for s in before.stacks} | {n.class_ for n in before.norms}
    old -= {""}  # the model itself, which has no name
    assert not old & ({s.id for s in after.stacks} | {n.class_ for n in after.norms})
