"""Numbers of tensors: rows of tokens, sums over them, summaries."""
