"""The statements that `docs/claims.md` tests, by what they are about."""

from docs.generators.claims import (
    batch_norm,
    dilution,
    gradients,
    growth,
    invariance,
    jacobian,
    offsets,
    output,
    post_norm,
    rank,
    speed,
    training,
)

MODULES = (
    growth,
    dilution,
    post_norm,
    gradients,
    training,
    jacobian,
    rank,
    invariance,
    offsets,
    batch_norm,
    output,
    speed,
)
CLAIMS = tuple(claim for module in MODULES for claim in module.CLAIMS)
