"""A report as text, JSON, CSV; without torch."""
