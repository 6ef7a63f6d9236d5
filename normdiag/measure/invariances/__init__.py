"""What norms are blind to."""
