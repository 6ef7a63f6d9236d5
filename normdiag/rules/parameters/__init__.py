"""ND2: what the checkpoint holds."""
