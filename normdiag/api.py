"""The Python face of the pipeline: keyword arguments instead of an options object."""

from __future__ import annotations

from dataclasses import fields
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any

from normdiag.errors import UsageError

if TYPE_CHECKING:
    from torch import nn

    from normdiag.options import Options
    from normdiag.report.compare.comparison import Comparison
    from normdiag.report.report import Report


def inspect(target: str | nn.Module, **options: Any) -> Report:
    """Load, run, measure and judge one target.

    Args:
        target: a hub id, a directory, a `.safetensors` or `.gguf` file,
            "package.module:factory", "file.py:factory", or any `torch.nn.Module`.
        **options: the fields of `normdiag.Options`, among them `inputs=` (what forward takes: a
            dict, a tuple or a tensor for one forward, a list of them for several), `texts=`
            (of a module together with `tokenizer=`),
            `measure="stream,norm-jacobians"` (groups and measures, also as a tuple; see
            `normdiag.measures`), `dtype=`, `device=`, `seed=`.

    Raises:
        UsageError: an unknown or invalid option.
        LoadError: no model could be built of the target.
        RunError: the model does not run on the inputs.
    """
    from normdiag import pipeline
    from normdiag.argument_names import name_arguments

    with name_arguments():
        return pipeline.inspect(_require_target(target), options=_build_options(options))


def trace(target: str | nn.Module, **options: Any) -> Report:
    """As `inspect`, with every token's numbers at every site in `Report.trace`.

    `measure` is ("stream", "norms") unless stated.
    """
    from normdiag import pipeline
    from normdiag.argument_names import name_arguments
    from normdiag.measures import ONE_PASS_MEASURES

    options.setdefault("measure", ONE_PASS_MEASURES)
    built = _build_options(options)
    if built.structure_only:
        raise UsageError(
            "invalid option: structure_only computes no values to trace", "use normdiag.inspect"
        )
    with name_arguments():
        return pipeline.trace(_require_target(target), options=built)


def compare(
    a: str | nn.Module | Report,
    b: str | nn.Module | Report,
    *,
    second: dict[str, Any] | None = None,
    **options: Any,
) -> Comparison:
    """Compare two targets on the same inputs, two reports, or one with the other.

    Args:
        a: a target as for `inspect`, a `Report`, or the path of a saved one (`.json`).
        b: the same.
        second: options for `b` where they differ, such as `{"dtype": "float16"}`.
        **options: the fields of `normdiag.Options`; `measure` is ("stream", "norms") unless stated.

    Raises:
        ReportError: a file that is no report. Beside it, the errors of `inspect`.
    """
    from normdiag import pipeline
    from normdiag.argument_names import name_arguments
    from normdiag.measures import ONE_PASS_MEASURES

    options.setdefault("measure", ONE_PASS_MEASURES)
    first, other = _build_options(options), _build_options(options | (second or {}))
    with name_arguments():
        return pipeline.compare(_require_target(a), _require_target(b), options=first, second=other)


def _require_target(target: Any) -> Any:
    """Return the target, a path as a string.

    Raises UsageError for what is neither a name nor a model: what it is called with is the caller's
    mistake, and torch need not be imported to say so.
    """
    if isinstance(target, PathLike):
        return fspath(target)
    if isinstance(target, type):
        raise UsageError(
            f"the target is the class {target.__name__}, not a model",
            "pass an instance: AutoModel.from_pretrained(..), or the class called",
        )
    is_report = hasattr(target, "to_evidence")
    if isinstance(target, str) or hasattr(target, "modules") or is_report:
        return target
    raise UsageError(
        f"the target is a {type(target).__name__}, not a model",
        "pass a torch.nn.Module, or a string: a hub id, a path, or a factory",
    )


def _build_options(values: dict[str, Any]) -> Options:
    from normdiag.options import Options

    names = [item.name for item in fields(Options)]
    unknown = sorted(values.keys() - set(names))
    if unknown:
        raise UsageError(
            f"no option is called {', '.join(unknown)}", f"options are: {', '.join(names)}"
        )
    return Options(**values)
