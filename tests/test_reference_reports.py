"""Reports hold the numbers that they held before everything was renamed, key by key.

NORMDIAG_REFERENCE_REPORTS names a folder of reports of the code before, one `TARGET.json` for each
target, "/" as "_" and ":" as "-": the sample models' factories, `sample_models/tiny_llama`, and the
directories of real models. Without it nothing is compared. The folder is no part of the repository.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import normdiag

FOLDER = os.environ.get("NORMDIAG_REFERENCE_REPORTS", "")
REPORTS = sorted(Path(FOLDER).glob("*.json")) if FOLDER else []
TARGETS = json.loads((Path(FOLDER) / "targets" / "targets.json").read_text()) if FOLDER else {}
KEYS = {  # (a key above it, before): now
    ("growth", "pace"): "update_ratio_sqrt_depth",
    ("growth", "start"): "initial_contribution",
    ("growth", "over_init"): "total_over_init",
    ("norms", "dominated"): "eps_dominated",
    ("norms", "share_channel"): "dominant_channel",
    ("norms", "constant_places"): "constant_indices",
    ("layers", "influence"): "block_influence",
    ("layers", "angular"): "angular_distance",
    ("clipping", "at"): "max_norm",
    ("clipping", "dominant"): "dominant_group",
    ("precision", "tightest"): "headroom_site",
    ("precision", "tightest_square"): "square_headroom_site",
    ("precision", "swallowed"): "absorbed_updates",
    ("precision", "lost_epsilons"): "underflowing_epsilons",
    ("precision", "lost_gains"): "overflowing_gains",
    ("precision", "squared_in"): "square_formats",
    ("logit_bounds", "seen"): "max_observed",
    ("kinds", "by"): "method",
    ("kinds", "mode"): "train_vs_eval",
    ("kinds", "single"): "batch_size_one",
    ("invariances", "scale_free"): "scale_invariant_weights",
    ("weights", "noted"): "flagged",
}
SENTENCES = {"message", "advice", "name", "why", "note", "what", "init_note", "notes", "how"}
ADDED = {("precision", "inner_peaks"), ("coverage", "measures")}
CHANGED = {"versions", "command", "defaulted"}
"""`defaulted` is null where nothing was flipped; ND004, which reads it, is skipped there."""


def iterate_values(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield (keys from the root, value) of everything that holds nothing else."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in items:
        if isinstance(item, dict | list) and item:
            yield from iterate_values(item, (*path, str(key)))
        else:
            yield (*path, str(key)), item


def rename_keys(path: tuple[str, ...]) -> tuple[str, ...]:
    """The path of a value in a report of today."""
    names = [*path]
    for (above, before), now in KEYS.items():
        if above in path:
            after = path.index(above) + 1
            names[after:] = [now if name == before else name for name in names[after:]]
    return tuple(names)


def is_compared(path: tuple[str, ...]) -> bool:
    """Whether a value says something that did not have to change."""
    added = any(pair in ADDED for pair in zip(path, path[1:], strict=False))
    return not (added or path[0] == "rules" or (SENTENCES | CHANGED) & set(path))


def is_equal(a: Any, b: Any) -> bool:
    """Equal, numbers to twelve digits."""
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=1e-12)
    return bool(a == b)


@pytest.mark.skipif(not FOLDER, reason="NORMDIAG_REFERENCE_REPORTS names no folder of reports")
@pytest.mark.parametrize("path", REPORTS, ids=lambda path: path.stem)
def test_every_value_is_what_it_was(path: Path) -> None:
    torch.set_num_threads(1)
    before = {rename_keys(k): v for k, v in iterate_values(json.loads(path.read_text()))}
    now = dict(iterate_values(normdiag.inspect(TARGETS[path.stem]).to_dict()))
    before = {k: v for k, v in before.items() if is_compared(k)}
    now = {k: v for k, v in now.items() if is_compared(k)}
    assert before.keys() == now.keys()
    assert [k for k, v in before.items() if not is_equal(v, now[k])] == []
