"""Where a Llama keeps its norms and adds: x + F(rms(x))."""

from __future__ import annotations

from typing import Any

from tests.oracle.case import ONE_STREAM, Add, Case, Norm, into, out_of


def llama_case(model: Any, batches: list[dict], **options: Any) -> Case:
    """Two adds per layer, an input norm each, and a final norm."""
    config, stack = model.config, "model.layers"
    layers = [f"{stack}.{i}" for i in range(config.num_hidden_layers)]
    kind = {"kind": "rmsnorm", "eps": config.rms_norm_eps, "stack": stack}
    norms = [
        Norm(module=f"{layer}.{name}", role="branch-input", layer=i, **kind)
        for i, layer in enumerate(layers)
        for name in ("input_layernorm", "post_attention_layernorm")
    ]
    final = Norm(module="model.norm", role="final", layer=None, **kind)
    return Case(
        model=model,
        batches=batches,
        norms=[*norms, final],
        adds=[add for i, layer in enumerate(layers) for add in _layer_adds(layer, i, stack)],
        stacks=[
            {
                "id": stack,
                "placement": "pre",
                "norm_kind": "rmsnorm",
                "layers": len(layers),
                "norms_per_layer": 2,
                "residual_adds_per_layer": 2,
                "qk_norm": False,
                "branch_scale": "none",
                "skip_scale": "none",
                "final_norm": "model.norm",
                "embedding_norm": None,
                "width": config.hidden_size,
                "drawing": "x + F(rms(x))",
                "note": None,
                "read_by": "norm",
                "layer_modules": len(layers),
                **ONE_STREAM,
            }
        ],
        head=into("lm_head"),
        taps=(
            "lm_head",
            *layers,
            *(f"{x}.{name}" for x in layers for name in ("self_attn", "mlp")),
        ),
        **options,
    )


def _layer_adds(layer: str, i: int, stack: str) -> list[Add]:
    first, second = f"{layer}.input_layernorm", f"{layer}.post_attention_layernorm"
    shared = {"module": layer, "stack": stack, "layer": i, "placement": "pre"}
    return [
        Add(
            k=0,
            depth=2 * i,
            skip=into(first),
            branch=out_of(f"{layer}.self_attn"),
            out=into(second),
            input_norms=[first],
            **shared,
        ),
        Add(
            k=1,
            depth=2 * i + 1,
            skip=into(second),
            branch=out_of(f"{layer}.mlp"),
            out=out_of(layer),
            input_norms=[second],
            **shared,
        ),
    ]
