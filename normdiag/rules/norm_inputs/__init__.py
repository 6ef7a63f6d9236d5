"""ND3: what the norms are given."""
