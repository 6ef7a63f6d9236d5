"""What of a checkpoint arrived in the model, from the loader's lists of mismatches."""

from __future__ import annotations

from typing import Any

from normdiag.errors import LoadError
from normdiag.evidence.subject import Loading
from normdiag.loading.unbuilt_layers import find_unbuilt_layers


def summarise_loading(model: Any, info: dict[str, Any]) -> tuple[Loading, tuple[str, ...]]:
    """Which parameters were not loaded, with notes on shapes that differ."""
    missing, unexpected = sorted(info["missing_keys"]), sorted(info["unexpected_keys"])
    shapes = _mismatched_shapes(info)
    not_loaded = {*missing, *shapes}
    vectors = {name for name, value in model.state_dict().items() if value.ndim == 1}
    notes = [
        f"{name}: {have} in the checkpoint, {want} in the model; newly initialised"
        for name, (have, want) in sorted(shapes.items())[:3]
    ]
    loading = Loading(
        unbuilt_layers=find_unbuilt_layers(model, unexpected),
        missing=tuple(missing),
        unexpected=tuple(unexpected),
        mismatched=tuple(sorted(shapes)),
        norm_parameters=tuple(sorted(not_loaded & vectors)),
    )
    return loading, tuple(notes)


def refuse_no_match(model: Any, info: dict[str, Any]) -> None:
    """Raise LoadError where no parameter was loaded."""
    shapes = _mismatched_shapes(info)
    parameters = dict(model.named_parameters())
    if parameters and {*info["missing_keys"], *shapes}.issuperset(parameters):
        raise _no_match_error(
            type(model).__name__,
            sorted(info["missing_keys"]),
            sorted(info["unexpected_keys"]),
            shapes,
        )


def describe_quantisation(model: Any, method: str) -> str:
    """How the loader handled weights that are stored quantised."""
    from transformers.quantizers import AutoHfQuantizer

    if getattr(model, "hf_quantizer", None) is not None:
        handling = "and run quantised"
    elif AutoHfQuantizer.supports_quant_method({"quant_method": method}):
        handling = "and dequantised"  # as transformers does with fp8 without a GPU
    else:
        handling = "by a method that transformers does not know; read as plain tensors"
    return f"stored weights are quantised ({method}) {handling}"


def _mismatched_shapes(info: dict[str, Any]) -> dict[str, Any]:
    return {name: (tuple(have), tuple(want)) for name, have, want in info["mismatched_keys"]}


def _no_match_error(
    name: str, missing: list[str], unexpected: list[str], shapes: dict[str, Any]
) -> LoadError:
    if shapes:
        first, (have, want) = next(iter(sorted(shapes.items())))
        reason = f"{first} is {have} in the checkpoint and {want} by the configuration"
    else:
        reason = f"the model needs {missing[0]}"
        reason += f", the checkpoint has {unexpected[0]}" if unexpected else ""
    return LoadError(
        f"no tensor of the checkpoint fits {name}: {reason}",
        "config.json and the weights are of different models; --weights-only checks the tensors",
    )
