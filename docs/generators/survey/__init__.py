"""What the quantities that rules judge are in trained models that work."""
