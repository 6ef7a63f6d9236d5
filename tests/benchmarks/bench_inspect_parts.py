"""What each part of a default `inspect` costs, as a ratio to a bare forward of the same process.

    OMP_NUM_THREADS=1 python tests/benchmarks/bench_inspect_parts.py [--runs 5]

SmolLM2-135M from its safetensors, 512 tokens, one thread. Processor seconds: a busy machine would
lengthen wall time. Bare forwards stand before and after each run, and the median of them divides
it. "the rest" is what no stage counts: making inputs, judging, building the report. Import is left
out: a run on a few tokens comes first. The last line is the peak resident size of the process.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn
from transformers import AutoModelForCausalLM
from transformers.utils import logging

from normdiag.options import Options
from normdiag.pipeline import inspect

ROOT = Path(__file__).parents[2]
LOADING, REST, WHOLE = "loading", "the rest", "all but loading"


class StageClock:
    """Processor seconds of each stage of a run. Implements `normdiag.progress.Progress`."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self._stage, self._began = "", 0.0

    def start_stage(self, what: str, total: int | None = None) -> None:
        self._stage, self._began = (LOADING if what.startswith(LOADING) else what), clock()

    def advance_stage(self, n: int = 1) -> None:
        """Steps are not timed."""

    def finish_stage(self) -> None:
        self.seconds[self._stage] += clock() - self._began


clock: Callable[[], float] = time.process_time


def measure_seconds(action: Callable[[], object]) -> float:
    """Processor seconds of one call."""
    began = clock()
    action()
    return clock() - began


def run_bare(model: nn.Module, inputs: dict[str, torch.Tensor]) -> float:
    """Seconds of one forward without autograd."""
    with torch.inference_mode():
        return measure_seconds(lambda: model(**inputs))


def measure_parts(directory: str, tokens: int, runs: int) -> dict[str, list[float]]:
    """Each part of every run, in bare forwards."""
    generator = torch.Generator().manual_seed(0)
    inputs = {"input_ids": torch.randint(3, 49000, (1, tokens), generator=generator)}
    model = AutoModelForCausalLM.from_pretrained(directory).eval()
    inspect(directory, options=Options(inputs={"input_ids": inputs["input_ids"][:, :16]}))
    run_bare(model, inputs)
    ratios: dict[str, list[float]] = defaultdict(list)
    for _ in range(runs):
        stages, bare = StageClock(), [run_bare(model, inputs) for _ in range(3)]
        whole = measure_seconds(
            lambda stages=stages: inspect(
                directory, options=Options(inputs=inputs), progress=stages
            )
        )
        forward = statistics.median([*bare, *(run_bare(model, inputs) for _ in range(3))])
        loading = stages.seconds[LOADING]
        parts = stages.seconds | {REST: whole - sum(stages.seconds.values())}
        for name, seconds in (parts | {WHOLE: whole - loading}).items():
            ratios[name].append(seconds / forward)
        ratios["a bare forward, seconds"].append(forward)
    return ratios


def main() -> None:
    """Print one line per part: minimum, median, maximum."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--tokens", type=int, default=512)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    logging.disable_progress_bar()
    sys.path.insert(0, str(ROOT))  # a script's own folder is on the path, the repository is not
    from tests.real.smollm2 import safetensors_copy

    ratios = measure_parts(str(safetensors_copy()), options.tokens, options.runs)
    print(f"{'in bare forwards':44}{'min':>8}{'median':>8}{'max':>8}")
    for name, values in ratios.items():
        low, middle, high = min(values), statistics.median(values), max(values)
        print(f"{name:44}{low:8.2f}{middle:8.2f}{high:8.2f}")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"peak resident size, MB {peak / 1024:.0f}")


if __name__ == "__main__":
    main()
