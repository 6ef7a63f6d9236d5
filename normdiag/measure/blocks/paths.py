"""Jacobians of spans that follow each other: when their product is the Jacobian of the whole."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from normdiag.numerics.host_algebra import multiply_matrices


@dataclass(frozen=True, slots=True)
class TokenJacobian:
    """dy/dx at one token, and which other tokens have a part in it."""

    jacobian: Tensor
    leaves: bool
    """x of the token reaches y of others."""
    returns: bool
    """x of others reaches y of the token."""
    is_whole: bool = True
    """False for a product that misses the ways which leave the token and come back to it."""


def compose_jacobians(
    early: TokenJacobian | None, late: TokenJacobian | None
) -> TokenJacobian | None:
    """The ways through `early`, then `late`, that stay at the token; None where one is not known.

    In a causal model no way leaves the last token, in an MLP none leaves any: nothing is missed.
    """
    if early is None or late is None:
        return None
    return TokenJacobian(
        multiply_matrices(late.jacobian, early.jacobian),
        early.leaves or late.leaves,
        early.returns or late.returns,
        early.is_whole and late.is_whole and not (early.leaves and late.returns),
    )
