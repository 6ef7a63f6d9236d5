"""Suppress what other libraries print and log, and turn their progress bars into progress."""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout
from operator import length_hint
from types import ModuleType, TracebackType
from typing import Any

from normdiag.progress import Progress


class ProgressAdapter:
    """Stands in for tqdm and passes its steps on to `progress`."""

    def __init__(
        self,
        progress: Progress,
        iterable: Iterable[Any] | None = None,
        desc: str | None = None,
        total: float | None = None,
        **_: Any,
    ) -> None:
        self._progress = progress
        self._iterable = iterable
        if total is None:
            total = length_hint(iterable or ()) or None
        self.total = total
        self.n = 0
        what = (desc or "reading").rstrip(". :").lower()
        progress.start_stage(what, None if total is None else int(total))

    def update(self, n: float | None = 1) -> None:
        """Advance by `n` steps."""
        self.n += int(n or 0)
        self._progress.advance_stage(int(n or 0))

    def __iter__(self) -> Iterator[Any]:
        for item in self._iterable or ():
            yield item
            self.update()

    def __enter__(self) -> ProgressAdapter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        return None

    def __getattr__(self, name: str) -> Any:
        """Ignore tqdm's methods that only change how a bar is drawn."""
        return lambda *_, **__: None


@contextmanager
def silence_hub() -> Iterator[None]:
    """Redirect stdout to stderr, ignore warnings, and switch off the hub client's bars and logs."""
    from huggingface_hub.utils import logging as hub_logging
    from huggingface_hub.utils.tqdm import (
        are_progress_bars_disabled,
        disable_progress_bars,
        enable_progress_bars,
    )

    with ExitStack() as stack:
        stack.enter_context(redirect_stdout(sys.stderr))
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        _silence_logger(stack, hub_logging)
        if not are_progress_bars_disabled():
            stack.callback(enable_progress_bars)
        disable_progress_bars()
        yield


@contextmanager
def silence_libraries(progress: Progress) -> Iterator[None]:
    """Silence the hub client and transformers, whose progress bars are passed on to `progress`.

    Previous settings are restored afterwards, also after an error.
    """
    from transformers.utils import logging as model_logging

    with silence_hub(), ExitStack() as stack:
        _silence_logger(stack, model_logging)
        placing = logging.getLogger("accelerate")
        stack.callback(placing.setLevel, placing.level)
        placing.setLevel(logging.CRITICAL)
        _redirect_progress_bars(stack, model_logging, progress)
        yield


def _silence_logger(stack: ExitStack, library: ModuleType) -> None:
    stack.callback(library.set_verbosity, library.get_verbosity())
    library.set_verbosity(logging.CRITICAL)


def _redirect_progress_bars(
    stack: ExitStack, model_logging: ModuleType, progress: Progress
) -> None:
    if model_logging.is_progress_bar_enabled():
        stack.callback(model_logging.enable_progress_bar)
    model_logging.disable_progress_bar()
    if hasattr(model_logging, "set_tqdm_hook"):  # older versions have bars, but no hook

        def make_bar(_: object, args: tuple[Any, ...], settings: dict[str, Any]) -> ProgressAdapter:
            return ProgressAdapter(progress, *args, **settings)

        stack.callback(model_logging.set_tqdm_hook, model_logging.set_tqdm_hook(make_bar))


@contextmanager
def redirect_gguf_progress(progress: Progress) -> Iterator[None]:
    """Replace tqdm in transformers' GGUF reader, which ignores transformers' own setting."""
    from transformers import modeling_gguf_pytorch_utils as reader

    original = reader.tqdm
    reader.tqdm = lambda *args, **settings: ProgressAdapter(progress, *args, **settings)
    try:
        yield
    finally:
        reader.tqdm = original
