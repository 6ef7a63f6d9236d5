"""The Jacobians of adds, layers and stacks."""
