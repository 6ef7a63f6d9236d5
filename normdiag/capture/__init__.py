"""One forward pass becomes a graph, and its sites are measured as they pass."""
