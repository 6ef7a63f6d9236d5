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

CLAIMS = (
    *growth.CLAIMS,
    *dilution.CLAIMS,
    *post_norm.CLAIMS,
    *gradients.CLAIMS,
    *training.CLAIMS,
    *jacobian.CLAIMS,
    *rank.CLAIMS,
    *invariance.CLAIMS,
    *offsets.CLAIMS,
    *batch_norm.CLAIMS,
    *output.CLAIMS,
    *speed.CLAIMS,
)
