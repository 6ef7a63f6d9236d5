"""What the schema of an operation says: its name, defaults, and the arguments that it writes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True, slots=True)
class OperationSchema:
    """The schema of an operation's overload."""

    name: str
    """Without overload and in-place mark; operations outside aten keep their namespace."""
    writes: tuple[int, ...] = ()
    """Positions of the arguments that are written."""
    writes_out: bool = False
    """Whether a keyword argument such as `out` is written."""
    qualified: str = ""
    """The name with its namespace, as it may be declared."""
    defaults: tuple[Any, ...] = ()
    """Of the positional arguments."""
    is_composite: bool = False
    """Whether torch writes it as other operations, which autograd is shown in its place: only
    inference mode passes it to a dispatch mode."""
    is_pointwise: bool = False
    """Whether torch marks it as working element by element."""


def parse_schema(func: Any) -> OperationSchema:
    """Read the schema of an overload, as a dispatch mode is given it."""
    schema = func._schema
    name = schema.name.split("::", 1)
    base = name[1] if name[0] == "aten" else schema.name
    writes = tuple(
        i
        for i, argument in enumerate(schema.arguments)
        if argument.alias_info is not None
        and argument.alias_info.is_write
        and not argument.kwarg_only
    )
    out = any(
        a.alias_info is not None and a.alias_info.is_write and a.kwarg_only
        for a in schema.arguments
    )
    if writes and base.endswith("_") and not base.endswith("__"):
        base = base[:-1]
    defaults = tuple(a.default_value for a in schema.arguments if not a.kwarg_only)
    is_composite = torch._C._dispatch_has_kernel_for_dispatch_key(
        func.name(), torch._C.DispatchKey.CompositeImplicitAutograd
    )
    is_pointwise = torch.Tag.pointwise in func.tags
    return OperationSchema(base, writes, out, schema.name, defaults, is_composite, is_pointwise)
