"""The reports of the oracle's cases."""

from tests.oracle.reports import jacobian_case, jacobian_report, report

__all__ = ["jacobian_case", "jacobian_report", "report"]
