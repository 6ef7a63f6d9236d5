"""Keep what libraries and models print out of the report."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout

# Read by the libraries on import. A variable that the user has set is not changed.
ENVIRONMENT = {
    "TRANSFORMERS_VERBOSITY": "error",
    "TRANSFORMERS_NO_ADVISORY_WARNINGS": "1",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "TOKENIZERS_PARALLELISM": "false",
}


@contextmanager
def redirect_library_output(*, verbose: bool) -> Iterator[None]:
    """Send prints to stderr, and drop libraries' warnings unless `verbose`.

    What concerns the model (newly initialised weights, a missing tokenizer) is in the report.
    """
    if not verbose:
        for name, value in ENVIRONMENT.items():
            os.environ.setdefault(name, value)
    with redirect_stdout(sys.stderr), warnings.catch_warnings():
        if not verbose:
            warnings.simplefilter("ignore")
        yield
