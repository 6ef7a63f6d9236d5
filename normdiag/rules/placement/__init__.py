"""ND1: where the norms stand."""
