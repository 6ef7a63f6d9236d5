"""RMSNorm's time against LayerNorm's. The only section that is not reproducible to the digit."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from docs.generators.claims.claim import Outcome, claim
from sample_models.norms import sqrt_rms, two_pass_ln

WIDTHS = (512, 768, 4096)
TOKENS, RUNS = 2048, 40


@claim(
    "RMSNorm is up to 50 % faster than LayerNorm",
    source="Zhang and Sennrich 2019 (1910.07467), 7 % to 64 % of a whole model's training time",
    how=f"""forward passes in float32 of {TOKENS} tokens on a CPU, without gradients; the fastest of
    {RUNS} runs that take turns. Fused: torch's `layer_norm` and `rms_norm`. Written out:
    `two_pass_ln` and `sqrt_rms` of `sample_models/norms.py`, operation by operation. No GPU was
    there to be timed.""",
)
def faster_by_half() -> Outcome:
    rows = []
    for width in WIDTHS:
        x, gain, bias = torch.randn(TOKENS, width), torch.ones(width), torch.zeros(width)
        pairs: dict[str, tuple[Callable[[], Tensor], Callable[[], Tensor]]] = {
            "fused": (
                lambda x=x, g=gain, b=bias: F.layer_norm(x, g.shape, g, b, 1e-5),
                lambda x=x, g=gain: F.rms_norm(x, g.shape, g, 1e-5),
            ),
            "written out": (
                lambda x=x, g=gain, b=bias: two_pass_ln(x, g, b, 1e-5),
                lambda x=x, g=gain, b=bias: sqrt_rms(x, g, b, 1e-5),
            ),
        }
        for name, (layer, rms) in pairs.items():
            of_layer, of_rms = _time_norms(layer, rms)
            rows.append([width, name, 1e3 * of_layer, 1e3 * of_rms, 100 * (1 - of_rms / of_layer)])
    return Outcome(
        "no fixed saving can be claimed",
        ["H", "norm", "LayerNorm (ms)", "RMSNorm (ms)", "saved (%)"],
        rows,
        f"On this CPU, with torch {torch.__version__} on {torch.get_num_threads()} thread(s), the "
        f"saving goes from {min(r[4] for r in rows):.0f} % to {max(r[4] for r in rows):.0f} % "
        "(negative: RMSNorm is slower). Whoever replaces a fused LayerNorm by an RMSNorm gains "
        "what the kernels at hand make of it; written out, there are fewer operations to run. A "
        "norm is a small part of a model's time, so that of the whole changes less. Time yours.",
    )


@torch.no_grad()
def _time_norms(first: Callable[[], Tensor], second: Callable[[], Tensor]) -> tuple[float, float]:
    """The least seconds of each; they take turns, so that what disturbs one disturbs the other."""
    took: tuple[list[float], list[float]] = ([], [])
    for _ in range(RUNS):
        for run, times in zip((first, second), took, strict=True):
            start = time.perf_counter()
            run()
            times.append(time.perf_counter() - start)
    return min(took[0]), min(took[1])


CLAIMS = (faster_by_half,)
