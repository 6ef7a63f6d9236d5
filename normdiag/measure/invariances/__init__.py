"""Invariances of norms."""
