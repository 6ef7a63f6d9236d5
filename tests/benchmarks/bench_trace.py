"""What looking costs: `python tests/benchmarks/bench_trace.py`, on SmolLM2-135M at 512 tokens.

Times are processor seconds on one thread (a busy machine would lengthen wall time), repeats
interleaved. The traced forward is timed by hooks on the model around its forward in `inspect`, with
streams and norms measured; "structure alone" is the same for `measure=()`. Jacobians and gradients
need passes of their own, so "everything" is timed by itself. Memory is
the peak resident size (VmHWM of Linux, reset by /proc/self/clear_refs) of a fresh process each,
with all loaded, imported and run once on a few tokens before; malloc returns freed pages at once.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table
from torch import nn
from transformers import AutoModelForCausalLM
from transformers.utils import logging

import normdiag

ROOT = Path(__file__).parents[2]
EAGER_TRIM = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "0"}


def main() -> None:
    """Measure everything and print one table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--tokens", type=int, default=512)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--peak-of", choices=RUNS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    logging.disable_progress_bar()
    if options.peak_of:
        print(peak_bytes(RUNS[options.peak_of], options.tokens))
        return
    timings = measure(options.tokens, options.repeats)
    peaks = {name: typical_peak(name, options.tokens) for name in RUNS}
    show(timings, peaks, options.tokens)


def checkpoint() -> str:
    """The safetensors copy that the tests made; made now where they did not run."""
    sys.path.insert(0, str(ROOT))  # a script's own folder is on the path, the repository is not
    from tests.real.smollm2 import safetensors_copy

    return str(safetensors_copy())


def load(directory: str) -> nn.Module:
    """The model as transformers loads it."""
    return AutoModelForCausalLM.from_pretrained(directory).eval()


def probe(tokens: int) -> dict[str, torch.Tensor]:
    """One sequence of seeded ids."""
    generator = torch.Generator().manual_seed(0)
    return {"input_ids": torch.randint(3, 49000, (1, tokens), generator=generator)}


def bare(model: nn.Module, inputs: dict[str, torch.Tensor]) -> None:
    """What any forward costs."""
    with torch.inference_mode():
        model(**inputs)


def inspect(target: nn.Module | str, inputs: dict[str, torch.Tensor]) -> None:
    """What is measured as the probe runs."""
    normdiag.inspect(target, inputs=inputs, measure=("stream", "norms"))


RUNS = {"bare forward": bare, "inspect": inspect}


class ForwardClock:
    """Seconds from the model's forward pre-hook to its forward hook, per forward."""

    def __init__(self, model: nn.Module) -> None:
        self.seconds: list[float] = []
        model.register_forward_pre_hook(self._start)
        model.register_forward_hook(self._stop)

    def _start(self, _module: nn.Module, _args: object) -> None:
        self._began = time.process_time()

    def _stop(self, _module: nn.Module, _args: object, _result: object) -> None:
        self.seconds.append(time.process_time() - self._began)


def seconds(action: Callable[[], object]) -> float:
    """Processor time of one call, its child processes included."""
    began = cpu_seconds()
    action()
    return cpu_seconds() - began


def cpu_seconds() -> float:
    """Processor seconds of this process and of the children it waited for, so far."""
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def measure(tokens: int, repeats: int) -> dict[str, list[float]]:
    """Interleaved repeats of everything that is timed, after one round that is not counted."""
    directory, inputs = checkpoint(), probe(tokens)
    model = load(directory)
    clock = ForwardClock(model)
    actions: dict[str, Callable[[], object]] = {
        "load": lambda: load(directory),
        "bare forward": lambda: bare(model, inputs),
        "structure alone, model loaded": lambda: normdiag.inspect(model, inputs=inputs, measure=()),
        "inspect, model loaded": lambda: inspect(model, inputs),
        "inspect, from the directory": lambda: inspect(directory, inputs),
        "everything, from the directory": lambda: normdiag.inspect(directory, inputs=inputs),
        "import typer, rich": lambda: run_python("-c", "import typer, rich"),
        "normdiag --help": lambda: run_python("-m", "normdiag", "--help"),
    }
    timings: dict[str, list[float]] = defaultdict(list)
    for repeat in range(repeats + 1):
        for name, action in actions.items():
            clock.seconds.clear()
            spent = seconds(action)
            if repeat:
                timings[name].append(spent)
                if clock.seconds and name != "bare forward":
                    timings[f"forward in: {name}"].append(clock.seconds[0])
    return timings


def run_python(*arguments: str) -> None:
    """This interpreter, as a child, in the repository."""
    subprocess.run([sys.executable, *arguments], check=True, cwd=ROOT, stdout=subprocess.DEVNULL)


def typical_peak(name: str, tokens: int) -> float:
    """Median of three processes: how many pages of the weights are resident differs a little."""
    return statistics.median(peak_in_fresh_process(name, tokens) for _ in range(3))


def peak_in_fresh_process(name: str, tokens: int) -> int:
    """Bytes; this script again, as a child."""
    command = [sys.executable, __file__, "--peak-of", name, "--tokens", str(tokens)]
    environment = {**os.environ, **EAGER_TRIM}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return int(done.stdout)


def peak_bytes(run: Callable[[nn.Module, dict], None], tokens: int) -> int:
    """The peak resident size during one run; what a first run imports is imported before."""
    model = load(checkpoint())
    for warm_up in RUNS.values():
        warm_up(model, probe(8))
    Path("/proc/self/clear_refs").write_text("5")
    run(model, probe(tokens))
    status = Path("/proc/self/status").read_text().splitlines()
    (line,) = (line for line in status if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


def show(timings: dict[str, list[float]], peaks: dict[str, float], tokens: int) -> None:
    """The table, then the quantities that have a limit."""
    table = Table(title=f"SmolLM2-135M, float32, {tokens} tokens, 1 thread")
    for column in ("what", "median s", "best s"):
        table.add_column(column, justify="left" if column == "what" else "right")
    for name, values in timings.items():
        table.add_row(name, f"{statistics.median(values):.3f}", f"{min(values):.3f}")
    console = Console()
    console.print(table)
    for what, value, limit in limits(timings, peaks):
        console.print(f"{what:<60}{value:7.2f}  (at most {limit:g})", soft_wrap=True)


def limits(
    timings: dict[str, list[float]], peaks: dict[str, float]
) -> list[tuple[str, float, float]]:
    """What was promised: name, measured (medians), at most."""
    of = {name: statistics.median(values) for name, values in timings.items()}
    forward, load_time = of["bare forward"], of["load"]
    rest = of["inspect, from the directory"] - load_time - 1.5 * forward
    everything = of["everything, from the directory"]
    extra = (peaks["inspect"] - peaks["bare forward"]) / 1e6
    return [
        ("traced forward / bare forward", of["forward in: inspect, model loaded"] / forward, 1.5),
        ("inspect from the directory - load - 1.5 forwards, seconds", rest, 1.0),
        ("everything from the directory, seconds of one thread", everything, 60.0),
        ("peak memory of inspect beyond a bare forward, MB", extra, 20),
        (
            "normdiag --help / import typer, rich",
            of["normdiag --help"] / of["import typer, rich"],
            3,
        ),
    ]


if __name__ == "__main__":
    main()
