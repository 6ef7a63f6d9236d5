"""One forward pass, and what is seen of it as it runs."""
