"""ND5: what the norms and the blocks do to a small change."""
