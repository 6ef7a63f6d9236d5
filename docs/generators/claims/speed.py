"""RMSNorm's time against LayerNorm's. The only section that is not reproducible to the digit."""

from __future__ import annotations

from docs.generators.claims.claim import Case, Criterion, Rows, Trial, claim, measure_model
from sample_models.pre_norm import PreNorm

WIDTHS = (512, 1024)


@claim(
    "RMSNorm is up to 50 % faster than LayerNorm",
    source="Zhang and Sennrich 2019 (1910.07467), 7 % to 64 % of a whole model's training time",
    how="""`--measure norm-speed` of `sample_models/pre_norm.py` of these widths, one sequence, at
    the shape that its norms have: forward passes in float32 without gradients, medians of 30 runs
    that take turns; five times over instead of five seeds. Fused: torch's `layer_norm` and
    `rms_norm`. Written out: operation by operation. No GPU was there to be timed.""",
    head=["H", "norm", "LayerNorm (ms)", "RMSNorm (ms)", "saved (%)"],
    criterion=Criterion(
        "RMSNorm saves at least 5 %: written out (with the condition), in both forms (without)",
        lambda rows: all(row[4] > 5 for row in rows if row[1] == "written out"),
        "the norm is written out, one operation after the other",
        lambda rows: all(row[4] > 5 for row in rows),
    ),
    conclusion="""These times are of one machine, a CPU that does other work beside, and with
    another kernel they are others: no fixed saving can be claimed. (Negative: RMSNorm is slower.)
    Whoever replaces a fused LayerNorm by an RMSNorm gains what the kernels at hand make of it;
    written out, there are fewer operations to run. A norm is a small part of a model's time, so
    that of the whole changes less. Time yours: `normdiag inspect TARGET --measure norm-speed`.""",
    trial=Trial(lengths=(64, 256, 1024)),
)
def faster_by_half(case: Case) -> Rows:
    rows = []
    for width in WIDTHS:
        built = case.build(lambda w=width: PreNorm(1, w), width, sequences=1)
        for speed in measure_model(built, "norm-speed").norm_speed:
            name = "fused" if speed.form == "fused" else "written out"
            times = speed.layer_norm_ms, speed.rms_norm_ms
            rows.append([width, name, *times, 100 * (1 - speed.ratio)])
    return rows


CLAIMS = (faster_by_half,)
