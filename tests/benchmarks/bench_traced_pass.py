"""What the traced pass costs beside a bare forward, and beside another checkout in the same run.

    python tests/benchmarks/bench_traced_pass.py [--beside CHECKOUT]

Random Llamas: one of SmolLM2-135M's layers and width (a small vocabulary), one tiny. Times are
processor seconds on one thread. "traced" is the forward inside `inspect`, between hooks on the
model, with streams and norms measured; "whole" is all of `inspect` with these, the structure built
after the forward included. Bare and traced forwards alternate in one process; with --beside,
processes of both checkouts alternate, and each ratio of this one is divided by the other's.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM

ROOT = Path(__file__).parents[2]
SIZES = {
    "30 layers, width 576, 128 tokens": (30, 576, 9, 3, 1536, 128),
    "2 layers, width 32, 16 tokens": (2, 32, 4, 2, 64, 16),
}
Ratios = dict[str, dict[str, float]]


def main() -> None:
    """Print the ratios, or with --json what another process reads."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--beside", type=Path, help="another checkout of the repository")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--processes", type=int, default=3, help="of each checkout")
    parser.add_argument("--json", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.json:
        print(json.dumps(measure_sizes(options.repeats)))
    elif options.beside is None:
        show_ratios(measure_sizes(options.repeats))
    else:
        compare_checkouts(options.beside, options.repeats, options.processes)


def build_llama(size: tuple[int, ...]) -> tuple[nn.Module, dict[str, torch.Tensor]]:
    """A random Llama and one sequence of ids."""
    layers, width, heads, kv_heads, inner, tokens = size
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=512, hidden_size=width, intermediate_size=inner, num_hidden_layers=layers,
        num_attention_heads=heads, num_key_value_heads=kv_heads, tie_word_embeddings=True,
    )  # fmt: skip
    ids = torch.randint(0, 512, (1, tokens))
    return LlamaForCausalLM(config).eval(), {"input_ids": ids}


def measure_sizes(repeats: int) -> Ratios:
    """The median ratios of each size."""
    return {name: measure_ratios(*build_llama(size), repeats) for name, size in SIZES.items()}


def measure_ratios(model: nn.Module, inputs: dict[str, torch.Tensor], repeats: int) -> dict:
    """Median processor time of the traced forward and of the whole, over that of a bare one."""
    import normdiag  # of the checkout that PYTHONPATH names

    began, forwards = [0.0], []
    model.register_forward_pre_hook(lambda *_: began.__setitem__(0, time.process_time()))
    model.register_forward_hook(lambda *_: forwards.append(time.process_time() - began[0]))
    times: dict[str, list[float]] = {"bare": [], "traced": [], "whole": []}
    for repeat in range(repeats + 1):  # the first one imports and allocates
        with torch.inference_mode():
            bare = min(clock_seconds(lambda: model(**inputs)) for _ in range(3))
        forwards.clear()
        whole = clock_seconds(
            lambda: normdiag.inspect(model, inputs=inputs, measure=("stream", "norms"))
        )
        if repeat:
            for name, spent in (("bare", bare), ("traced", forwards[0]), ("whole", whole)):
                times[name].append(spent)
    middle = {name: statistics.median(values) for name, values in times.items()}
    return {name: middle[name] / middle["bare"] for name in ("traced", "whole")}


def clock_seconds(action: Callable[[], object]) -> float:
    """Processor seconds of one call."""
    began = time.process_time()
    action()
    return time.process_time() - began


def compare_checkouts(other: Path, repeats: int, processes: int) -> None:
    """Alternate processes of both checkouts; print each one's ratios and their quotient."""
    runs: dict[Path, list[Ratios]] = {ROOT: [], other.resolve(): []}
    for _ in range(processes):
        for checkout, results in runs.items():
            results.append(run_checkout(checkout, repeats))
    mine, theirs = (merge_runs(results) for results in runs.values())
    for title, ratios in (("this checkout", mine), (f"beside it: {other}", theirs)):
        print(title)
        show_ratios(ratios)
    for size, ratios in mine.items():
        for name, ratio in ratios.items():
            print(f"{size}, {name}: {ratio / theirs[size][name]:.2f} of the other checkout's")


def run_checkout(checkout: Path, repeats: int) -> Ratios:
    """Run this script in a fresh process with the package of `checkout`."""
    command = [sys.executable, __file__, "--json", "--repeats", str(repeats)]
    environment = {**os.environ, "PYTHONPATH": str(checkout)}
    done = subprocess.run(
        command, check=True, capture_output=True, text=True, env=environment, cwd=checkout
    )
    return json.loads(done.stdout.splitlines()[-1])


def merge_runs(runs: list[Ratios]) -> Ratios:
    """The medians over processes."""
    return {
        size: {name: statistics.median(run[size][name] for run in runs) for name in ratios}
        for size, ratios in runs[0].items()
    }


def show_ratios(ratios: Ratios) -> None:
    """One line per size."""
    for size, each in ratios.items():
        line = ", ".join(f"{name} / bare forward {ratio:.2f}" for name, ratio in each.items())
        print(f"  {size}: {line}")


if __name__ == "__main__":
    main()
