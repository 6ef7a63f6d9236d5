"""ND6: what the gradient does on its way back."""
