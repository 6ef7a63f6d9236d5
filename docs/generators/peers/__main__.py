"""Run normdiag and three other tools on ten tiny models, and write down what each of them says.

pip install torchlens nnsight transformer-lens     # beside normdiag, in an environment of its own
python -m docs.generators.peers > docs/comparison.md

Each tool runs in a process of its own, since some of them patch torch. What is true of the models
is read in their source (`models.py`) and taken by plain forward hooks.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import warnings
from dataclasses import asdict
from datetime import date
from importlib.metadata import version

TOOLS = {
    "normdiag": "ask_normdiag",
    "TransformerLens": "ask_transformerlens",
    "nnsight": "ask_nnsight",
    "torchlens": "ask_torchlens",
}
Row = dict[str, object]

HEAD = """\
# Residual adds and norms: what four tools say of ten models

Made by `python -m docs.generators.peers` on {date}, on a CPU, with
{versions}.

The models are transformers' own classes, with {layers} layers of width 32 (T5: {layers} in each
half), and seeded random weights, norms included, in float32. What is true of them is read in their
source; the sums are taken by plain forward hooks on a model that no tool has touched.

The tools have different purposes: TransformerLens gives the parts of a model common names for
experiments, nnsight reads and edits any value of a run, torchlens records every operation of a run,
and normdiag reports on norms and the residual stream. Here all are asked normdiag's question.

## Residual adds

"k of n": of the n sums that the model's residual adds make, k are among the values that the tool
gives as states of the residual stream. For nnsight: k can be read at a named place; which places
are residual adds is for the user to know. "+m": m values are given as states that no add of a layer
made; the sum of token and position embeddings is one such in GPT-2.

After the semicolon, the largest error of `in + writes = out` over what the tool names, as a share
of the largest value of `out`: per layer for TransformerLens and normdiag, over the whole stack for
torchlens. nnsight names no writes. normdiag's takes the norms that stand between two adds into
account; the others' have no place for them.

"""

NOTES = """\

nnsight and torchlens give no list of norms and no placement.

## What the tables show

* **Placement** is stated by normdiag alone. TransformerLens' names tell it to who knows the adapter
  (`ln1_post` is a norm on the branch); BERT's `ln1` and `ln2` are called as GPT-2's are.
* **A norm between two adds** (BERT, OPT with `do_layer_norm_before=False`) ends torchlens' walk.
  TransformerLens' `resid_pre + attn_out + mlp_out` is not its `resid_post` in BERT; OPT raises.
* **A residual add inside a sub-module** (Bloom, T5) is found by all four.
* **Parallel branches** (GPT-NeoX): torchlens gives the sum of the first layer's two branches as a
  state of the stream, and the layer's own.
* **Experts** (DeepSeek-V3): torchlens refuses, since the sum of shared and routed experts could
  be the stream as well.
* **nnsight** can read every sum. It has no notion of a residual add, a norm or a stack, and claims
  none.
"""


def ask_all_models(tool: str) -> list[Row]:
    """Every case put to one tool, in this process. A tool that raises is quoted."""
    from docs.generators.peers.models import CASES

    reader = importlib.import_module(f"docs.generators.peers.{TOOLS[tool]}")
    rows = []
    for case in CASES:
        try:
            answer = asdict(reader.ask_tool(case))
        except Exception as error:
            lines = str(error).splitlines() or [""]
            answer = {"true_sums": 0, "refusal": f"{type(error).__name__}: {lines[0]}"}
        rows.append(answer)
    return rows


def ask_in_process(tool: str) -> list[Row]:
    """As `ask_all_models`, in a process of its own."""
    quiet = os.environ | {"HF_HUB_OFFLINE": "1", "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        [sys.executable, "-m", "docs.generators.peers", tool],
        stdout=subprocess.PIPE,
        env=quiet,
        check=True,
        text=True,
    )
    rows: list[Row] = json.loads(done.stdout.splitlines()[-1])
    return rows


def format_adds(answer: Row, wanted: int) -> str:
    """`5 of 6, +1; 1e-07`."""
    if not answer["true_sums"] and answer.get("refusal"):
        return "none (*)"
    extra = f", +{answer['extra']}" if answer.get("extra") else ""
    identity = answer.get("identity")
    off = "" if identity is None else "; 0" if identity == 0 else f"; {identity:.1g}"
    return f"{answer['true_sums']} of {wanted}{extra}{off}{' (*)' if answer.get('refusal') else ''}"


def markdown_table(head: list[str], rows: list[list[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def comparison_page(answers: dict[str, list[Row]]) -> str:
    """The whole page."""
    from docs.generators.peers.models import CASES, LAYERS

    counts = [sum(map(len, case.true_sums(case.build()).values())) for case in CASES]
    packages = [
        importlib.import_module(f"docs.generators.peers.{m}").PACKAGE for m in TOOLS.values()
    ]
    versions = ", ".join(f"{p} {version(p)}" for p in [*packages, "transformers", "torch"])
    head = HEAD.format(date=date.today().isoformat(), versions=versions, layers=LAYERS)
    cells = {
        tool: [format_adds(*pair) for pair in zip(answers[tool], counts, strict=True)]
        for tool in TOOLS
    }
    parts = [
        head,
        markdown_table(
            ["type", *TOOLS],
            [[f"`{c.name}`", *(cells[t][i] for t in TOOLS)] for i, c in enumerate(CASES)],
        ),
        "\n(*) see the tool's own words below.\n\n## Norms and placement\n\n",
        markdown_table(
            ["type", "placement in the source", "normdiag", "norms TransformerLens names"],
            [
                [
                    f"`{case.name}`",
                    case.placement,
                    f"{ours.get('placement') or '-'}: {ours.get('norms') or '-'}",
                    str(theirs.get("norms") or "-"),
                ]
                for case, ours, theirs in zip(
                    CASES, answers["normdiag"], answers["TransformerLens"], strict=True
                )
            ],
        ),
        NOTES,
        "\n## How the sums of the second layer are called\n\n",
        *table_of_names(answers),
        "\n## In the tools' own words, where they give nothing or not all\n\n",
        *list_refusals(answers),
    ]
    return "".join(parts)


def table_of_names(answers: dict[str, list[Row]]) -> list[str]:
    """One table: type by tool."""
    from docs.generators.peers.models import CASES

    rows = [
        [f"`{case.name}`", *(_code_spans(str(answers[t][i].get("names") or "")) for t in TOOLS)]
        for i, case in enumerate(CASES)
    ]
    return [markdown_table(["type", *TOOLS], rows)]


def list_refusals(answers: dict[str, list[Row]]) -> list[str]:
    """One line per tool and type."""
    from docs.generators.peers.models import CASES

    return [
        f"* {tool}, `{case.name}`: {row['refusal']}\n"
        for tool in TOOLS
        for case, row in zip(CASES, answers[tool], strict=True)
        if row.get("refusal")
    ]


def _code_spans(listed: str) -> str:
    return ", ".join(f"`{name}`" for name in listed.split(", ")) if listed else "-"


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    if len(sys.argv) == 1:
        print(comparison_page({tool: ask_in_process(tool) for tool in TOOLS}), end="")
    else:
        print(json.dumps(ask_all_models(sys.argv[1])))
