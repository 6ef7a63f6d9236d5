"""normdiag: what the normalisation layers and the residual stream of a transformer do.

    import normdiag
    report = normdiag.inspect("org/name")
    report.save("report.json")

Names are resolved on first use, so `import normdiag` imports neither torch nor transformers.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOMES = {
    "Comparison": "normdiag.report.compare.comparison",
    "NormdiagError": "normdiag.errors",
    "Options": "normdiag.options",
    "Plots": "normdiag.views.plots",
    "Report": "normdiag.report.report",
    "compare": "normdiag.api",
    "declare_norm": "normdiag.capture.declared",
    "declare_residual_add": "normdiag.capture.declared",
    "inspect": "normdiag.api",
    "load_report": "normdiag.report.saved",
    "render_report": "normdiag.views.rendering",
    "trace": "normdiag.api",
}

__all__ = [
    "Comparison",
    "NormdiagError",
    "Options",
    "Plots",
    "Report",
    "compare",
    "declare_norm",
    "declare_residual_add",
    "inspect",
    "load_report",
    "render_report",
    "trace",
]

if TYPE_CHECKING:
    from normdiag.api import compare, inspect, trace
    from normdiag.capture.declared import declare_norm, declare_residual_add
    from normdiag.errors import NormdiagError
    from normdiag.options import Options
    from normdiag.report.compare.comparison import Comparison
    from normdiag.report.report import Report
    from normdiag.report.saved import load_report
    from normdiag.views.plots import Plots
    from normdiag.views.rendering import render_report


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        known = ", ".join(__all__)
        raise AttributeError(f"module 'normdiag' has no attribute {name!r}; it has {known}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
