"""Where a BERT keeps its norms and adds: ln(x + F(x)), and a norm on the embeddings."""

from __future__ import annotations

from typing import Any

from tests.oracle.case import ONE_STREAM, Add, Case, Norm, into, out_of

STACK = "encoder.layer"
EMBEDDING = "embeddings.LayerNorm"


def bert_case(model: Any, batches: list[dict], **options: Any) -> Case:
    """A `BertModel`: two adds per layer, a norm after each."""
    config = model.config
    sublayers = [
        f"{STACK}.{i}.{name}"
        for i in range(config.num_hidden_layers)
        for name in ("attention.output", "output")
    ]
    kind = {"kind": "layernorm", "eps": config.layer_norm_eps, "stack": STACK}
    norms = [
        Norm(module=f"{sublayer}.LayerNorm", role="stream", layer=depth // 2, **kind)
        for depth, sublayer in enumerate(sublayers)
    ]
    return Case(
        model=model,
        batches=batches,
        norms=[Norm(module=EMBEDDING, role="embedding", layer=None, **kind), *norms],
        adds=[
            _add(sublayer, depth, f"{sublayers[depth - 1]}.LayerNorm" if depth else EMBEDDING)
            for depth, sublayer in enumerate(sublayers)
        ],
        stacks=[
            {
                "id": STACK,
                "placement": "post",
                "norm_kind": "layernorm",
                "layers": config.num_hidden_layers,
                "norms_per_layer": 2,
                "residual_adds_per_layer": 2,
                "qk_norm": False,
                "branch_scale": "none",
                "skip_scale": "none",
                "final_norm": None,
                "embedding_norm": EMBEDDING,
                "width": config.hidden_size,
                "drawing": "ln(x + F(x))",
                "note": None,
                "read_by": "head",
                "layer_modules": config.num_hidden_layers,
                **ONE_STREAM,
            }
        ],
        head=out_of(norms[-1].module),
        taps=(*sublayers, *(f"{sublayer}.dense" for sublayer in sublayers)),
        **options,
    )


def _add(sublayer: str, depth: int, before: str) -> Add:
    return Add(
        module=sublayer,
        skip=into(sublayer, argument=1),
        branch=out_of(f"{sublayer}.dense"),
        out=into(f"{sublayer}.LayerNorm"),
        stack=STACK,
        layer=depth // 2,
        depth=depth,
        placement="post",
        stream_norm=f"{sublayer}.LayerNorm",
        skip_norm=before,
    )
