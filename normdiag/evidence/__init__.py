"""Evidence: frozen dataclasses without torch, whose fields are the keys of the report."""
