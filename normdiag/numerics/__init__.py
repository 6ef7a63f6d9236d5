"""Tensor mathematics, independent of models."""
