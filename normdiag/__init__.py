"""normdiag: what the normalisation layers and the residual stream of a transformer do."""

__version__ = "0.1.0"
