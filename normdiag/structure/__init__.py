"""Architecture from a graph of operations: graph algorithms without torch."""
