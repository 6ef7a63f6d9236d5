"""What number formats hold, and where a value was lost."""
