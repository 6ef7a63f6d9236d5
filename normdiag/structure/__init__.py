"""From a graph of operations to an architecture: pure graph algorithms, without torch."""
