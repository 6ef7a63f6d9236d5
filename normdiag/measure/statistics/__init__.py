"""Statistics of plain tensors in one pass, and accumulators over passes."""
