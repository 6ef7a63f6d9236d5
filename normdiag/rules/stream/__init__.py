"""ND4: what the residual stream does with depth."""
