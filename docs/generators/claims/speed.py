"""RMSNorm's time against LayerNorm's. The only section that is not reproducible to the digit."""

from __future__ import annotations

import torch

from docs.generators.claims.claim import Outcome, claim
from normdiag.measure.invariances.norm_speed import time_norms

WIDTHS = (512, 768, 4096)
TOKENS, RUNS = 2048, 40


@claim(
    "RMSNorm is up to 50 % faster than LayerNorm",
    source="Zhang and Sennrich 2019 (1910.07467), 7 % to 64 % of a whole model's training time",
    how=f"""forward passes in float32 of {TOKENS} tokens on a CPU, without gradients: medians of
    {RUNS} runs that take turns, and the range of the ratio of neighbouring runs, as by `--measure
    norm-speed`. Fused: torch's `layer_norm` and `rms_norm`. Written out: operation by operation. No
    GPU was there to be timed.""",
)
def faster_by_half() -> Outcome:
    rows = []
    for width in WIDTHS:
        for form in ("fused", "composed"):
            shape, device = (TOKENS, width), torch.device("cpu")
            speed = time_norms(form, shape, width, torch.float32, device, runs=RUNS)
            ratios = f"{speed.ratio_min:.2f} to {speed.ratio_max:.2f}"
            name = "fused" if form == "fused" else "written out"
            times = (speed.layer_norm_ms, speed.rms_norm_ms)
            rows.append([width, name, *times, 100 * (1 - speed.ratio), ratios])
    return Outcome(
        "no fixed saving can be claimed",
        ["H", "norm", "LayerNorm (ms)", "RMSNorm (ms)", "saved (%)", "RMSNorm / LayerNorm"],
        rows,
        f"On this CPU, with torch {torch.__version__} on {torch.get_num_threads()} thread(s), the "
        f"saving goes from {min(r[4] for r in rows):.0f} % to {max(r[4] for r in rows):.0f} % "
        "(negative: RMSNorm is slower). Whoever replaces a fused LayerNorm by an RMSNorm gains "
        "what the kernels at hand make of it; written out, there are fewer operations to run. A "
        "norm is a small part of a model's time, so that of the whole changes less. Time yours: "
        "`normdiag inspect TARGET --measure norm-speed`.",
    )


CLAIMS = (faster_by_half,)
