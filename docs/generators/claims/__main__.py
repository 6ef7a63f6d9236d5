"""Measure statements about norms and the stream, and write down what held: docs/claims.md.

python -m docs.generators.claims > docs/claims.md

Every number is normdiag's own, of the models in `sample_models`, but for the times of the last
section. It takes two minutes.
"""

from __future__ import annotations

import sys
from datetime import date

import torch

from docs.generators.claims import CLAIMS
from docs.generators.claims.claim import Claim, Outcome, markdown_table, section

HEAD = """\
# Claims, measured

Made by `python -m docs.generators.claims` on {date}, on a CPU, with torch {torch} on {threads}
thread(s).

What is said of norms and residual streams, each statement tried on a small model at its random
initialisation. A statement "held" where the numbers below it say what it says, in that setting; one
that did not hold is wrong as it stands there. Small models at initialisation are not trained ones:
run `normdiag inspect` on yours.

"""


def claims_page(outcomes: dict[Claim, Outcome]) -> str:
    """The verdicts in a table, then a section for each."""
    rows = [
        [number, f"[{claim.statement}](#{heading_anchor(number, claim)})", outcome.verdict]
        for number, (claim, outcome) in enumerate(outcomes.items(), 1)
    ]
    head = HEAD.format(
        date=date.today().isoformat(), torch=torch.__version__, threads=torch.get_num_threads()
    )
    sections = [section(n, *each) for n, each in enumerate(outcomes.items(), 1)]
    return head + markdown_table(["", "statement", "verdict"], rows) + "".join(sections)


def heading_anchor(number: int, claim: Claim) -> str:
    """What GitHub makes of the section's heading."""
    kept = [c for c in f"{number}. {claim.statement}".lower() if c.isalnum() or c in " -_"]
    return "".join(kept).replace(" ", "-")


def main() -> None:
    torch.set_num_threads(1)
    outcomes = {}
    for claim in CLAIMS:
        print(claim.statement, file=sys.stderr)
        outcomes[claim] = claim.measure()
    print(claims_page(outcomes), end="")


if __name__ == "__main__":
    main()
