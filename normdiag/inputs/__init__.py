"""Inputs for a model: the user's, its author's, built-in texts or seeded values."""
