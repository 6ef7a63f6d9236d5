"""Measure statements about norms and the stream, and write down what held: docs/claims.md.

python docs/claims.py > docs/claims.md

Every number is normdiag's own, of the models in `sample_models`, but for the times of the last
section. It takes two minutes.
"""

from __future__ import annotations

import sys
from datetime import date
from pathlib import Path

import torch

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]

from claimed import CLAIMS  # noqa: E402
from claimed.claim import Claim, Outcome, section, table  # noqa: E402

HEAD = """\
# Claims, measured

Made by `python docs/claims.py` on {date}, on a CPU, with torch {torch} on {threads} thread(s).

What is said of norms and residual streams, each statement tried on a small model at its random
initialisation. A statement "held" where the numbers below it say what it says, in that setting; one
that did not hold is wrong as it stands there. Small models at initialisation are not trained ones:
run `normdiag inspect` on yours.

"""


def page(outcomes: dict[Claim, Outcome]) -> str:
    """The verdicts in a table, then a section for each."""
    rows = [
        [number, f"[{claim.statement}](#{anchor(number, claim)})", outcome.verdict]
        for number, (claim, outcome) in enumerate(outcomes.items(), 1)
    ]
    head = HEAD.format(
        date=date.today().isoformat(), torch=torch.__version__, threads=torch.get_num_threads()
    )
    sections = [section(n, *each) for n, each in enumerate(outcomes.items(), 1)]
    return head + table(["", "statement", "verdict"], rows) + "".join(sections)


def anchor(number: int, claim: Claim) -> str:
    """What GitHub makes of the section's heading."""
    kept = [c for c in f"{number}. {claim.statement}".lower() if c.isalnum() or c in " -_"]
    return "".join(kept).replace(" ", "-")


def main() -> None:
    torch.set_num_threads(1)
    outcomes = {}
    for claim in CLAIMS:
        print(claim.statement, file=sys.stderr)
        outcomes[claim] = claim.measure()
    print(page(outcomes), end="")


if __name__ == "__main__":
    main()
