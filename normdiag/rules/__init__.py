"""From evidence to findings; without torch."""
