"""Statistics of norms and residual adds over all passes."""
