"""Four tools, one to a file, asked for the residual adds and norms of the same models."""
