"""The interface of a rule: page, thresholds, required evidence, check."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import ClassVar

from normdiag.evidence.evidence import Evidence
from normdiag.findings import Confidence, Finding, Severity
from normdiag.rules.requirements import Requirement
from normdiag.rules.thresholds import Limits, Threshold


class Rule(ABC):
    """One defect. The docstring of the class is its page, see `page.HEADINGS`.

    `code` and `name` are permanent and never used again for another defect.
    """

    code: ClassVar[str]
    """ND, the digit of the family, two digits."""
    name: ClassVar[str]
    """The name of the defect; the file has the same name."""
    since: ClassVar[str]
    """The first version of normdiag with this rule."""
    requirements: ClassVar[tuple[Requirement, ...]]
    thresholds: ClassVar[tuple[Threshold, ...]] = ()
    fires_on: ClassVar[str]
    """A sample model that has the defect, "sample_models/file.py:factory"; a factory called `write`
    writes a checkpoint into a directory."""
    silent_on: ClassVar[str]
    """The same model without the defect."""

    @abstractmethod
    def check(self, evidence: Evidence, limits: Limits) -> Iterator[Finding]:
        """Yield findings. `evidence` meets all `requirements`; `limits` are the thresholds."""

    @property
    def family(self) -> str:
        """The folder of the rule."""
        return type(self).__module__.rsplit(".", 2)[-2]

    @property
    def page_text(self) -> str:
        """The page as written: the class docstring without its indentation."""
        return inspect.cleandoc(type(self).__doc__ or "")

    @property
    def summary(self) -> str:
        """The first line of the page."""
        return self.page_text.partition("\n")[0]

    def finding(
        self,
        message: str,
        *,
        ids: tuple[str, ...],
        severity: Severity,
        confidence: Confidence,
        measured: tuple[float | None, float | None] = (None, None),
        advice: str,
    ) -> Finding:
        """Build a finding of this rule; `measured` is the value and the threshold it exceeds."""
        value, threshold = measured
        return Finding(
            code=self.code,
            name=self.name,
            severity=severity,
            confidence=confidence,
            ids=ids,
            message=message,
            value=value,
            threshold=threshold,
            advice=advice,
        )
