"""Recording of one forward pass as a graph of operations."""
