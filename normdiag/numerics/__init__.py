"""Pure tensor mathematics; knows nothing of models."""
