"""The statements that `docs/claims.py` tries, by what they are about."""

from claimed import batch_norm, growth, invariance, jacobian, output, post_norm, speed

CLAIMS = (
    *growth.CLAIMS,
    *post_norm.CLAIMS,
    *jacobian.CLAIMS,
    *invariance.CLAIMS,
    *batch_norm.CLAIMS,
    *output.CLAIMS,
    *speed.CLAIMS,
)
