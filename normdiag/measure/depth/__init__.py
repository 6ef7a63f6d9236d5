"""What the adds of a stack are to each other."""
