"""A report as text, page or chart, for Python callers."""
