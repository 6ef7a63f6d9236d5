"""Keep other libraries' bars, logs and prints apart from the report; their bars become progress."""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout
from operator import length_hint
from types import ModuleType, TracebackType
from typing import Any

from normdiag.loading.interface import Progress


class ProgressAdapter:
    """A tqdm that draws nothing and tells `progress` instead."""

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
        self._what = (desc or "reading").rstrip(". :").lower()
        if total is None:
            total = length_hint(iterable or ()) or None
        self.total = total
        self.n = 0
        self._tell()

    def update(self, n: float | None = 1) -> None:
        """`n` more steps are done."""
        self.n += int(n or 0)
        self._tell()

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
        """tqdm's methods that only change how a bar looks."""
        return lambda *_, **__: None

    def _tell(self) -> None:
        self._progress(self._what, self.n, None if self.total is None else int(self.total))


@contextmanager
def silence_hub() -> Iterator[None]:
    """Nothing is printed on stdout, no warning shown, and the hub client draws and logs nothing."""
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
    """As `quiet_hub`, for transformers and the code it runs as well; its bars are `progress`.

    What was set before is set again afterwards, also after an error.
    """
    from transformers.utils import logging as model_logging

    with silence_hub(), ExitStack() as stack:
        _silence_logger(stack, model_logging)
        _redirect_progress_bars(stack, model_logging, progress)
        yield


def _silence_logger(stack: ExitStack, library: ModuleType) -> None:
    stack.callback(library.set_verbosity, library.get_verbosity())
    library.set_verbosity(logging.CRITICAL)


def _redirect_progress_bars(stack: ExitStack, model_logging: ModuleType, progress: Progress) -> None:
    if model_logging.is_progress_bar_enabled():
        stack.callback(model_logging.enable_progress_bar)
    model_logging.disable_progress_bar()
    if hasattr(model_logging, "set_tqdm_hook"):  # older versions have bars, but no hook

        def bar(_: object, args: tuple[Any, ...], settings: dict[str, Any]) -> ProgressAdapter:
            return ProgressAdapter(progress, *args, **settings)

        stack.callback(model_logging.set_tqdm_hook, model_logging.set_tqdm_hook(bar))


@contextmanager
def redirect_gguf_progress(progress: Progress) -> Iterator[None]:
    """transformers' GGUF reader draws its bar with tqdm itself, past transformers' own switch."""
    from transformers import modeling_gguf_pytorch_utils as reader

    drawn = reader.tqdm
    reader.tqdm = lambda *args, **settings: ProgressAdapter(progress, *args, **settings)
    try:
        yield
    finally:
        reader.tqdm = drawn
