"""From evidence to findings. Needs no torch: every rule runs on a saved report."""
