"""The statements that `docs/claims.md` tests, by what they are about."""

from docs.generators.claims import (
    batch_norm,
    growth,
    invariance,
    jacobian,
    output,
    post_norm,
    speed,
)

CLAIMS = (
    *growth.CLAIMS,
    *post_norm.CLAIMS,
    *jacobian.CLAIMS,
    *invariance.CLAIMS,
    *batch_norm.CLAIMS,
    *output.CLAIMS,
    *speed.CLAIMS,
)
