"""What was seen: frozen dataclasses without torch. They are also the vocabulary of the report."""
