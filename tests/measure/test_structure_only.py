"""Without weights the architecture is the one that a forward with random weights tells."""

import json
from dataclasses import replace

import pytest
import torch
import transformers
from safetensors.torch import save_file
from torch import nn

import normdiag
from normdiag.errors import RunError, UsageError
from normdiag.evidence.architecture import Scale

SMALL = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 99,
}
LATENT = {
    "q_lora_rank": 16,
    "kv_lora_rank": 16,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 8,
    "v_head_dim": 8,
    "num_key_value_heads": 4,
}
EXPERTS = {"num_experts_per_tok": 2, "num_local_experts": 4}
CONFIGS = {
    "llama": transformers.LlamaConfig(**SMALL),
    "deepseek_v3": transformers.DeepseekV3Config(
        **SMALL | LATENT,
        n_routed_experts=4,
        n_shared_experts=1,
        n_group=1,
        topk_group=1,
        num_experts_per_tok=2,
        moe_intermediate_size=32,
        first_k_dense_replace=1,
    ),
    "mixtral": transformers.MixtralConfig(**SMALL, **EXPERTS),
    "jamba": transformers.JambaConfig(
        **SMALL,
        num_experts=4,
        num_experts_per_tok=2,
        attn_layer_period=2,
        attn_layer_offset=1,
        expert_layer_period=2,
        expert_layer_offset=1,
        mamba_d_state=8,
        mamba_dt_rank=4,
        use_mamba_kernels=False,
    ),
    "gpt_oss": transformers.GptOssConfig(**SMALL, **EXPERTS, head_dim=8),
    "t5": transformers.T5Config(
        d_model=32, d_kv=8, d_ff=64, num_layers=3, num_heads=4, vocab_size=99
    ),
    "zamba2": transformers.Zamba2Config(
        **SMALL | {"num_key_value_heads": 4},
        attention_hidden_size=64,
        attention_head_dim=16,
        mamba_d_state=8,
        mamba_expand=2,
        mamba_ngroups=1,
        mamba_headdim=16,
        n_mamba_heads=4,
        chunk_size=8,
        layers_block_type=["mamba", "hybrid", "mamba"],
        num_mem_blocks=1,
        adapter_rank=8,
        use_mamba_kernels=False,
    ),
    "bert": transformers.BertConfig(**SMALL),
    "vit": transformers.ViTConfig(**SMALL, image_size=32, patch_size=8),
    "whisper": transformers.WhisperConfig(
        d_model=32,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=64,
        decoder_ffn_dim=64,
        vocab_size=99,
        max_source_positions=30,
        max_target_positions=40,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
    ),
}


def bare(scale):
    """A learned scale's kind is structure, its value is not."""
    return Scale(kind=scale.kind) if scale.kind == "learned" else scale


def structure(architecture):
    """All but what weights alone can say."""
    return replace(
        architecture,
        norms=tuple(replace(n, gain=None, bias_rms=None) for n in architecture.norms),
        residual_adds=tuple(
            replace(a, skip_scale=bare(a.skip_scale), branch_scale=bare(a.branch_scale))
            for a in architecture.residual_adds
        ),
    )


@pytest.mark.parametrize("name", CONFIGS)
def test_the_architecture_is_that_of_random_weights(tmp_path, name):
    CONFIGS[name].save_pretrained(tmp_path)
    real = normdiag.inspect(str(tmp_path), random_init=True, measure=())
    told = normdiag.inspect(str(tmp_path), structure_only=True)
    assert told.architecture.stacks
    assert structure(told.architecture) == structure(real.architecture)
    assert told.subject.parameters == real.subject.parameters


def test_nothing_is_measured_and_it_is_said(tmp_path):
    CONFIGS["llama"].save_pretrained(tmp_path)
    report = normdiag.inspect(str(tmp_path), structure_only=True)
    measured = report.measurements
    assert not (measured.norms or measured.stream or measured.growth or measured.replay)
    assert not (measured.closure or measured.head_input or measured.weights)
    assert report.subject.mode == "structure-only"
    assert report.subject.device == "meta"
    assert report.subject.weights_digest is None
    assert any("there are no values" in each.why for each in report.coverage.skipped)
    assert {"ND101", "ND102"} <= set(report.rules.passed)


def test_a_model_of_405_billion_parameters_is_never_in_memory(tmp_path):
    fields = {
        "model_type": "llama",
        "hidden_size": 16384,
        "intermediate_size": 53248,
        "num_hidden_layers": 126,
        "num_attention_heads": 128,
        "num_key_value_heads": 8,
        "vocab_size": 128256,
    }
    (tmp_path / "config.json").write_text(json.dumps(fields))
    report = normdiag.inspect(str(tmp_path), structure_only=True)
    (stack,) = report.architecture.stacks
    assert (stack.placement, stack.layers, stack.residual_adds_per_layer) == ("pre", 126, 2)
    assert report.subject.parameters > 4e11


class Undecided(nn.Module):
    """Its way depends on what it is given."""

    def __init__(self, decide):
        super().__init__()
        self.norm = nn.LayerNorm(8)
        self.layer = nn.Linear(8, 8)
        self.decide = decide

    def forward(self, x):
        for _ in range(self.decide(x)):
            x = x + self.layer(self.norm(x))
        return x


def on_meta(decide):
    with torch.device("meta"):
        return Undecided(decide)


def test_a_way_that_cannot_be_followed_names_the_remedy():
    model = on_meta(lambda x: len(x.sum((1, 2)).tolist()))
    with pytest.raises(RunError, match="random_init=True draws them"):
        normdiag.inspect(model, structure_only=True)


def test_a_way_that_was_guessed_is_said():
    report = normdiag.inspect(on_meta(lambda x: 2 if x.any() else 1), structure_only=True)
    assert len(report.architecture.residual_adds) == 2
    (why,) = (e.why for e in report.coverage.skipped if e.what == "decisions by values")
    assert "taken as true" in why
    assert "test_structure_only.py:" in why


def test_inputs_give_the_shapes():
    model = on_meta(lambda x: 1)
    given = [{"x": torch.ones(1, 5, 8)}, {"x": torch.ones(1, 3, 8)}]
    report = normdiag.inspect(model, inputs=given, structure_only=True)
    assert len(report.architecture.residual_adds) == 1
    assert report.subject.probe.kind == "inputs"


def test_a_trace_is_of_values():
    with pytest.raises(UsageError, match="structure_only computes no values to trace"):
        normdiag.trace(on_meta(lambda x: 1), structure_only=True)


def test_names_and_shapes_are_no_architecture(tmp_path):
    tensors = {f"h.{i}.ln.weight": torch.ones(4) for i in range(3)}
    save_file(tensors, tmp_path / "model.safetensors")
    report = normdiag.inspect(str(tmp_path / "model.safetensors"), structure_only=True)
    assert report.architecture.stacks == report.architecture.norms == ()
    assert report.subject.parameters == 12
    (guess,) = (e for e in report.coverage.skipped if e.what == "architecture, h")
    assert "low confidence" in guess.why
    assert "layers: 3; possible gains in each: 1 (ln.weight [4])" in guess.why
    assert report.findings == ()
