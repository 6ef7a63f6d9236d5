"""Scripts that write pages of the documentation: run as `python -m docs.generators.NAME`."""
