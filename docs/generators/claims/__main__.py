"""Measure statements about norms and the stream, and write down what held: docs/claims.md.

python -m docs.generators.claims > docs/claims.md

Stream, norm and Jacobian numbers are normdiag's own, of the models in `sample_models`; gradients
are plain autograd's, since normdiag differentiates 64 tokens at most. Two processes take a few
minutes. The times of the last section are the machine's and are measured alone.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import date

import torch

from docs.generators.claims import CLAIMS, MODULES
from docs.generators.claims.claim import Claim
from docs.generators.claims.section import Results, claim_section, joint_verdict, markdown_table

HEAD = """\
# Claims, measured

Made by `python -m docs.generators.claims` on {date}, on a CPU, with torch {torch} on one thread.

What is said of norms and residual streams, each statement tried on small models at random
initialisation, with sequences of three lengths and five seeds of weights and inputs for each.
The tables give the range over the seeds. A verdict is the criterion's below the table, for every
length and every seed; where they disagree, it says at which it held. "Holds only if" means: tried
with the condition it held, without it it did not. Small models at initialisation are not trained
ones: run `normdiag inspect` on yours.

"""


def claims_page(measured: Sequence[tuple[Claim, Results]]) -> str:
    """The verdicts in a table, then a section for each."""
    rows = [
        [
            str(number),
            f"[{claim.statement}](#{heading_anchor(number, claim)})",
            joint_verdict(claim, results),
        ]
        for number, (claim, results) in enumerate(measured, 1)
    ]
    head = HEAD.format(date=date.today().isoformat(), torch=torch.__version__)
    sections = [claim_section(n, *each) for n, each in enumerate(measured, 1)]
    return head + markdown_table(["", "statement", "verdict"], rows) + "".join(sections)


def heading_anchor(number: int, claim: Claim) -> str:
    """What GitHub makes of the section's heading."""
    letters = [c for c in f"{number}. {claim.statement}".lower() if c.isalnum() or c in " -_"]
    return "".join(letters).replace(" ", "-")


def try_module(number: int) -> list[Results]:
    """All trials of the claims of one module, which share runs."""
    torch.set_num_threads(1)
    tried = []
    for claim in MODULES[number].CLAIMS:
        print(claim.statement, file=sys.stderr)
        tried.append({case: claim.measure(case) for case in claim.trial.cases})
    return tried


def main() -> None:
    *others, timed = range(len(MODULES))
    with ProcessPoolExecutor(2) as pool:
        results = [*pool.map(try_module, others), try_module(timed)]
    tried = [each for module in results for each in module]
    print(claims_page([*zip(CLAIMS, tried, strict=True)]), end="")


if __name__ == "__main__":
    main()
