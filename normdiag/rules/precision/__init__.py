"""ND7: what the number format can hold."""
