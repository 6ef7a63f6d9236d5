"""A site by its id."""

from __future__ import annotations

import difflib

from normdiag.errors import UsageError
from normdiag.evidence.architecture import Norm, ResidualAdd
from normdiag.report.report import Report


def find_site(report: Report, id: str) -> Norm | ResidualAdd:
    """Return the norm or the residual add called `id`. Raises UsageError, naming near ones."""
    sites: dict[str, Norm | ResidualAdd] = {norm.id: norm for norm in report.architecture.norms}
    sites |= {add.id: add for add in report.architecture.residual_adds}
    if id in sites:
        return sites[id]
    near = difflib.get_close_matches(id, sites, n=3, cutoff=0.3) or list(sites)[:3]
    raise UsageError(
        f"no norm or residual add is called {id!r}",
        f"give the id of a site, such as {', '.join(near)}" if near else "the report has no sites",
    )
